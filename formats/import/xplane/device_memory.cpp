#include "formats/import/xplane/device_memory.h"

#include <algorithm>
#include <protozero/exception.hpp>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "formats/import/source/log_lines.h"
#include "formats/model/limits.h"
#include "formats/model/no_history.h"
#include "formats/model/total_bytes.h"
#include "formats/wire/message_reader.h"

namespace memreel::xplane {
namespace {

// profile.proto of pprof.
enum class ProfileField : std::uint32_t { sample_type = 1, sample = 2, location = 4, function = 5, string_table = 6 };
enum class TypeField : std::uint32_t { type = 1, unit = 2 };
enum class SampleField : std::uint32_t { location = 1, value = 2, label = 3 };
enum class LabelField : std::uint32_t { key = 1, text = 2 };
enum class LocationField : std::uint32_t { id = 1, line = 4 };
enum class SourceLineField : std::uint32_t { function = 1, line = 2 };
enum class FunctionField : std::uint32_t { id = 1, name = 2, file = 4 };

/// More buffers than this of one place are written as one allocation.
constexpr std::uint64_t most_buffers = 100'000;
/// Of all places.
constexpr std::uint64_t most_buffers_in_all = 10'000'000;

/// A repeated number, packed or not.
template <class Reader>
void add_numbers(Reader& reader, std::vector<std::uint64_t>& into) {
  if (reader.is_bytes()) {
    const auto numbers = reader.numbers();
    into.insert(into.end(), numbers.begin(), numbers.end());
  } else {
    into.push_back(reader.uint64());
  }
}

class ProfileReader {
 public:
  ProfileReader(std::string_view profile, TraceWriter& writer) : profile_(profile), writer_(writer) {}

  /// False if the samples are not counts and bytes of allocations.
  bool run() {
    read_tables();
    if (types_.size() != 2 || text(types_[0]) != "allocations" || text(types_[1]) != "space") return false;
    wire::MessageReader<ProfileField> reader(profile_);
    while (reader.next()) {
      if (reader.field() == ProfileField::sample)
        add_sample(reader.bytes());
      else
        reader.skip();
    }
    return true;
  }

  std::uint64_t left_out() const { return left_out_; }

 private:
  struct Function {
    std::uint64_t name = 0, file = 0;
  };
  struct SourceLine {
    std::uint64_t function = 0, line = 0;
  };

  std::string_view text(std::uint64_t index) const {
    return index < texts_.size() ? texts_[index] : std::string_view{};
  }

  /// They follow the samples that need them.
  void read_tables() {
    wire::MessageReader<ProfileField> reader(profile_);
    while (reader.next()) {
      switch (reader.field()) {
        case ProfileField::sample_type: {
          wire::MessageReader<TypeField> type(reader.bytes());
          std::uint64_t name = 0;
          while (type.next())
            if (type.field() == TypeField::type)
              name = type.uint64();
            else
              type.skip();
          types_.push_back(name);
          break;
        }
        case ProfileField::location: {
          wire::MessageReader<LocationField> location(reader.bytes());
          std::uint64_t id = 0;
          std::vector<SourceLine> lines;
          while (location.next())
            if (location.field() == LocationField::id)
              id = location.uint64();
            else if (location.field() == LocationField::line)
              lines.push_back(line_in(location.bytes()));
            else
              location.skip();
          locations_[id] = std::move(lines);
          break;
        }
        case ProfileField::function: {
          wire::MessageReader<FunctionField> function(reader.bytes());
          std::uint64_t id = 0;
          Function row;
          while (function.next())
            if (function.field() == FunctionField::id)
              id = function.uint64();
            else if (function.field() == FunctionField::name)
              row.name = function.uint64();
            else if (function.field() == FunctionField::file)
              row.file = function.uint64();
            else
              function.skip();
          functions_[id] = row;
          break;
        }
        case ProfileField::string_table:
          texts_.push_back(reader.bytes());
          break;
        default:
          reader.skip();
      }
    }
  }

  static SourceLine line_in(std::string_view message) {
    SourceLine row;
    wire::MessageReader<SourceLineField> line(message);
    while (line.next())
      if (line.field() == SourceLineField::function)
        row.function = line.uint64();
      else if (line.field() == SourceLineField::line)
        row.line = line.uint64();
      else
        line.skip();
    return row;
  }

  void add_sample(std::string_view message) {
    std::vector<std::uint64_t> places, values;
    std::string_view device;
    bool is_program = false;
    wire::MessageReader<SampleField> sample(message);
    while (sample.next()) {
      if (sample.field() == SampleField::location)
        add_numbers(sample, places);
      else if (sample.field() == SampleField::value)
        add_numbers(sample, values);
      else if (sample.field() == SampleField::label) {
        std::uint64_t key = 0, value = 0;
        wire::MessageReader<LabelField> label(sample.bytes());
        while (label.next())
          if (label.field() == LabelField::key)
            key = label.uint64();
          else if (label.field() == LabelField::text)
            value = label.uint64();
          else
            label.skip();
        if (text(key) == "device") device = text(value);
        if (text(key) == "kind") is_program = text(value) == "executable";
      } else {
        sample.skip();
      }
    }
    if (values.size() != 2) {
      ++left_out_;
      return;
    }
    add_buffers(values[0], values[1], is_program, device, stack_of(places));
  }

  void add_buffers(std::uint64_t count, std::uint64_t bytes, bool is_program, std::string_view device, StackId stack) {
    if (bytes == 0) return;
    if (count == 0 || count > most_buffers || written_ + count > most_buffers_in_all) count = 1;
    const std::uint64_t each = bytes / count;
    if (each + bytes % count > max_allocation.count || total_.bytes() + Bytes{bytes} > max_total) {
      ++left_out_;
      return;
    }
    total_ += Bytes{bytes};
    written_ += count;
    const HeapId heap = writer_.intern(Heap{.name = writer_.intern(is_program ? "jax.executables" : "jax.buffers"),
                                            .level = Level::framework,
                                            .device = device_of(device),
                                            .observes_completion = false});
    const OriginId origin = writer_.intern(Origin{.heap = heap});
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t size = each + (i == 0 ? bytes % count : 0);
      writer_.append(
          {.kind = EventKind::alloc, .origin = origin, .stack = stack, .address = Address{next_}, .size = Bytes{size}});
      next_ += (size + 255) / 256 * 256 + 256;
    }
  }

  /// Leaf first; a location's inlined callers follow it.
  StackId stack_of(const std::vector<std::uint64_t>& places) {
    std::vector<FrameId> frames;
    for (const std::uint64_t place : places) {
      const auto location = locations_.find(place);
      if (location == locations_.end()) continue;
      for (const SourceLine& line : location->second) {
        const auto function = functions_.find(line.function);
        if (function == functions_.end() || frames.size() >= max_stack_depth) continue;
        constexpr std::uint64_t most_lines = std::uint64_t{1} << 31U;
        frames.push_back(
            writer_.intern(Frame{.function = writer_.intern(text(function->second.name)),
                                 .file = writer_.intern(text(function->second.file)),
                                 .line = static_cast<std::uint32_t>(line.line < most_lines ? line.line : 0)}));
      }
    }
    StackId stack = StackId::none;
    for (; !frames.empty(); frames.pop_back()) stack = writer_.intern(Stack{.frame = frames.back(), .caller = stack});
    return stack;
  }

  static std::int32_t device_of(std::string_view name) {
    if (name.find("CPU") != std::string_view::npos || name.find("cpu") != std::string_view::npos) return -1;
    std::int32_t device = 0;
    const std::size_t first = name.find_first_of("0123456789");
    for (std::size_t at = first; at < name.size() && name[at] >= '0' && name[at] <= '9' && device < 1000; ++at)
      device = device * 10 + (name[at] - '0');
    return device;
  }

  std::string_view profile_;
  TraceWriter& writer_;
  std::vector<std::uint64_t> types_;  // names
  std::vector<std::string_view> texts_;
  std::unordered_map<std::uint64_t, std::vector<SourceLine>> locations_;
  std::unordered_map<std::uint64_t, Function> functions_;
  TotalBytes total_;
  std::uint64_t written_ = 0, left_out_ = 0;
  std::uint64_t next_ = 256;
};

}  // namespace

bool looks_like_device_memory(std::span<const std::byte> beginning) {
  // Two sample types of two small numbers each, and then neither a third one nor text.
  std::string_view text = text_of(beginning);
  for (int i = 0; i < 2; ++i) {
    if (text.size() < 6 || text[0] != '\x0a' || text[1] != '\x04' || text[2] != '\x08' || text[4] != '\x10')
      return false;
    text.remove_prefix(6);
  }
  return !text.empty() && text[0] == '\x12';
}

Result<void> import_device_memory(ByteCursor& bytes, Header header, std::unique_ptr<ByteSink> sink,
                                  const WriterOptions& options) {
  header.source = "jax.memory";
  std::string profile;
  for (;;) {
    const auto piece = bytes.take(std::uint64_t{1} << 18U);
    if (piece.empty()) break;
    profile.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    if (profile.size() > bytes.memory_limit().count)
      return Error{.what = "is larger than the memory limit", .where = bytes.where(), .remedy = "raise --max-memory"};
  }
  if (bytes.failure()) return *bytes.failure();
  TraceWriter writer(std::move(sink), header, options);
  ProfileReader reader(profile, writer);
  try {
    if (!reader.run())
      return Error{.what = "is a profile of pprof, but not of a device's memory",
                   .where = bytes.where(),
                   .remedy = "save one with jax.profiler.save_device_memory_profile()"};
  } catch (const protozero::exception&) {
    return Error{.what = "the profile is damaged or cut off",
                 .where = bytes.where(),
                 .remedy = "save it again, or copy it again"};
  }
  writer.set_losses({.unknown_actions = reader.left_out(), .skipped = all_of_a_history()});
  return writer.finish();
}

}  // namespace memreel::xplane
