// SPDX-License-Identifier: Apache-2.0
#include "formats/export/export.h"

#include <map>
#include <ostream>
#include <protozero/pbf_builder.hpp>
#include <unordered_map>

#include "formats/export/row.h"
#include "formats/export/stack_weights.h"
#include "formats/model/quantity.h"
#include "formats/model/stack_text.h"

namespace memreel {
namespace {

using protozero::pbf_builder;
using protozero::pbf_tag_type;

// The fields written, with their public numbers.
enum class ProfileField : pbf_tag_type {
  sample_type = 1,
  sample = 2,
  mapping = 3,
  location = 4,
  function = 5,
  string_table = 6,
  time_nanos = 9,
  duration_nanos = 10,
  comment = 13,
  default_sample_type = 14,
};
enum class ValueTypeField : pbf_tag_type { type = 1, unit = 2 };
enum class SampleField : pbf_tag_type { location_id = 1, value = 2, label = 3 };
enum class LabelField : pbf_tag_type { key = 1, str = 2 };
enum class MappingField : pbf_tag_type {
  id = 1,
  memory_start = 2,
  memory_limit = 3,
  filename = 5,
  build_id = 6,
  has_functions = 7,
  has_filenames = 8,
  has_line_numbers = 9,
};
enum class LocationField : pbf_tag_type { id = 1, mapping_id = 2, address = 3, line = 4 };
enum class LineField : pbf_tag_type { function_id = 1, line = 2 };
enum class FunctionField : pbf_tag_type { id = 1, name = 2, system_name = 3, filename = 4 };

/// Writes a profile message by message. A location's ID is its frame's, a mapping's is its module's.
class ProfileWriter {
 public:
  ProfileWriter(const Tables& tables, std::ostream& out)
      : tables_(tables), file_(out), has_location_(tables.frames.size() + 1), has_mapping_(tables.modules.size()) {
    number_of("");
  }

  void write(const Trace& trace, const ExportOptions& options) {
    add_sample_type("alloc_objects", "count");
    add_sample_type("alloc_space", "bytes");
    add_sample_type("inuse_objects", "count");
    add_sample_type("inuse_space", "bytes");
    for (const StackWeight& weight : stack_weights(trace, options.events, options.notes)) add_sample(weight);
    add([&](auto& profile) {
      profile.add_int64(ProfileField::default_sample_type, number_of("inuse_space"));
      profile.add_int64(
          ProfileField::comment,
          number_of(options.events ? "GPU memory, recorded by memreel"
                                   : "GPU memory when each heap's live bytes were at their peak, recorded by "
                                     "memreel"));
      const auto times = trace.events.times();
      if (times.empty() || times.back() <= times.front()) return;
      profile.add_int64(ProfileField::time_nanos, times.front().count());
      profile.add_int64(ProfileField::duration_nanos, (times.back() - times.front()).count());
    });
    for (const std::string* text : strings_)
      add([&](auto& profile) { profile.add_string(ProfileField::string_table, *text); });
    file_.finish();
  }

 private:
  template <class Fill>
  void add(Fill fill) {
    message_.clear();
    pbf_builder<ProfileField> profile(message_);
    fill(profile);
    file_.write(message_);
  }

  std::int64_t number_of(std::string_view text) {
    const auto [entry, is_new] = numbers_.try_emplace(utf8(text), strings_.size());
    if (is_new) strings_.push_back(&entry->first);
    return static_cast<std::int64_t>(entry->second);
  }

  void add_sample_type(std::string_view type, std::string_view unit) {
    add([&](auto& profile) {
      pbf_builder<ValueTypeField> value(profile, ProfileField::sample_type);
      value.add_int64(ValueTypeField::type, number_of(type));
      value.add_int64(ValueTypeField::unit, number_of(unit));
    });
  }

  void add_sample(const StackWeight& weight) {
    std::vector<std::uint64_t> locations;
    for (StackId stack = weight.stack; stack != StackId::none; stack = tables_[stack].caller) {
      add_location(tables_[stack].frame);
      locations.push_back(index(tables_[stack].frame));
    }
    if (locations.empty()) locations.push_back(location_without_stack());
    add([&](auto& profile) {
      pbf_builder<SampleField> sample(profile, ProfileField::sample);
      sample.add_packed_uint64(SampleField::location_id, locations.begin(), locations.end());
      for (const std::uint64_t value : {weight.made, weight.made_bytes.count, weight.live, weight.live_bytes.count})
        sample.add_int64(SampleField::value, static_cast<std::int64_t>(value));
      add_labels(sample, tables_[weight.origin]);
      if (!weight.category.empty()) add_label(sample, "category", weight.category);
      if (!weight.layer.empty()) add_label(sample, "layer", weight.layer);
      if (!weight.phase.empty()) add_label(sample, "phase", weight.phase);
    });
  }

  void add_labels(pbf_builder<SampleField>& sample, const Origin& origin) {
    const Heap& heap = tables_[origin.heap];
    add_label(sample, "device", heap.device < 0 ? "host" : "cuda:" + std::to_string(heap.device));
    add_label(sample, "heap", tables_[heap.name]);
    add_label(sample, "stream", stream_label(tables_, origin.stream));
    add_label(sample, "pool", pool_label(tables_, origin.pool));
    const Thread& thread = tables_[origin.thread];
    if (thread.tid != 0) add_label(sample, "thread", std::to_string(thread.tid));
  }

  /// Only text labels: pprof drops numbers that are 0, and parses filters that look like numbers as ranges.
  void add_label(pbf_builder<SampleField>& sample, std::string_view key, std::string_view text) {
    pbf_builder<LabelField> label(sample, SampleField::label);
    label.add_int64(LabelField::key, number_of(key));
    label.add_int64(LabelField::str, number_of(text));
  }
  void add_location(FrameId id) {
    if (std::exchange(has_location_[index(id)], 1) != 0) return;
    const Frame& frame = tables_[id];
    const FrameText text = frame_text(tables_, id);
    const std::uint64_t function = function_of(text.function.empty() ? "(unknown)" : text.function, text.file);
    if (frame.module != ModuleId::none) add_mapping(frame.module);
    add([&](auto& profile) {
      pbf_builder<LocationField> location(profile, ProfileField::location);
      location.add_uint64(LocationField::id, index(id));
      if (frame.module != ModuleId::none) {
        location.add_uint64(LocationField::mapping_id, index(frame.module));
        location.add_uint64(LocationField::address, tables_[frame.module].base.value + frame.module_offset);
      }
      pbf_builder<LineField> line(location, LocationField::line);
      line.add_uint64(LineField::function_id, function);
      if (frame.line != 0) line.add_int64(LineField::line, frame.line);
    });
  }

  /// pprof drops samples without a location.
  std::uint64_t location_without_stack() {
    const std::uint64_t id = tables_.frames.size();
    if (std::exchange(has_location_[id], 1) != 0) return id;
    const std::uint64_t function = function_of("(no stack)", "");
    add([&](auto& profile) {
      pbf_builder<LocationField> location(profile, ProfileField::location);
      location.add_uint64(LocationField::id, id);
      pbf_builder<LineField> line(location, LocationField::line);
      line.add_uint64(LineField::function_id, function);
    });
    return id;
  }

  std::uint64_t function_of(std::string_view name_text, std::string_view file_text) {
    const std::int64_t name = number_of(name_text);
    const std::int64_t file = number_of(file_text);
    const auto [entry, is_new] = functions_.try_emplace({name, file}, functions_.size() + 1);
    const std::uint64_t id = entry->second;
    if (is_new) {
      add([&](auto& profile) {
        pbf_builder<FunctionField> function(profile, ProfileField::function);
        function.add_uint64(FunctionField::id, id);
        function.add_int64(FunctionField::name, name);
        function.add_int64(FunctionField::system_name, name);
        function.add_int64(FunctionField::filename, file);
      });
    }
    return id;
  }

  void add_mapping(ModuleId id) {
    if (std::exchange(has_mapping_[index(id)], 1) != 0) return;
    const Module& module = tables_[id];
    add([&](auto& profile) {
      pbf_builder<MappingField> mapping(profile, ProfileField::mapping);
      mapping.add_uint64(MappingField::id, index(id));
      mapping.add_uint64(MappingField::memory_start, module.base.value);
      mapping.add_uint64(MappingField::memory_limit, (module.base + module.size).value);
      mapping.add_int64(MappingField::filename, number_of(tables_[module.path]));
      mapping.add_int64(MappingField::build_id, number_of(hex_of(module.build_id)));
      // memreel already resolved the names; pprof need not look for better ones on its machine.
      mapping.add_bool(MappingField::has_functions, true);
      mapping.add_bool(MappingField::has_filenames, true);
      mapping.add_bool(MappingField::has_line_numbers, true);
    });
  }

  const Tables& tables_;
  GzipStream file_;
  std::string message_;
  std::unordered_map<std::string, std::size_t> numbers_;  // of strings
  std::vector<const std::string*> strings_;               // in order of their numbers
  std::map<std::pair<std::int64_t, std::int64_t>, std::uint64_t> functions_;
  std::vector<char> has_location_, has_mapping_;  // whether they are written
};

}  // namespace

void export_pprof(const Trace& trace, const ExportOptions& options, std::ostream& out) {
  ProfileWriter(trace.tables, out).write(trace, options);
}

}  // namespace memreel
