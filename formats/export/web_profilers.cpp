// SPDX-License-Identifier: Apache-2.0
// Profiles for viewers in a browser: speedscope, and Firefox's profiler.
#include <algorithm>
#include <array>
#include <charconv>
#include <ostream>
#include <unordered_map>

#include "formats/export/export.h"
#include "formats/export/row.h"
#include "formats/export/stack_weights.h"
#include "formats/model/quantity.h"
#include "formats/model/stack_text.h"

namespace memreel {
namespace {

void write_frames(const Tables& tables, std::ostream& out) {
  // Row 0 represents memory recorded without a stack.
  out << "{\"frames\":[{\"name\":\"(no stack)\"}";
  for (std::uint32_t f = 1; f < tables.frames.size(); ++f) {
    const FrameText frame = frame_text(tables, FrameId{f});
    out << ",\n{\"name\":" << json_string(frame.function.empty() ? "(unknown)" : frame.function);
    const std::string_view file = frame.file.empty() ? frame.module_path : frame.file;
    if (!file.empty()) out << ",\"file\":" << json_string(file);
    if (frame.line != 0) out << ",\"line\":" << frame.line;
    out << '}';
  }
  out << "]}";
}

/// Outermost first, as in speedscope.
void write_stack(const Tables& tables, StackId stack, std::ostream& out) {
  std::vector<std::uint32_t> frames;
  for (; stack != StackId::none; stack = tables[stack].caller) frames.push_back(index(tables[stack].frame));
  if (frames.empty()) frames.push_back(0);
  out << '[';
  for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame)
    out << (frame == frames.rbegin() ? "" : ",") << *frame;
  out << ']';
}

/// The weights of one heap's stacks, summed over streams and pools.
std::vector<StackWeight> held_in(HeapId heap, const Tables& tables, const std::vector<StackWeight>& weights) {
  std::vector<StackWeight> held;
  for (const StackWeight& weight : weights) {
    if (tables[weight.origin].heap != heap || weight.live_bytes == 0_B) continue;
    if (held.empty() || held.back().stack != weight.stack)
      held.push_back(weight);
    else
      held.back().live_bytes += weight.live_bytes;
  }
  return held;
}

void write_profile(const std::string& name, const std::vector<StackWeight>& held, const Tables& tables,
                   std::ostream& out) {
  Bytes total;
  for (const StackWeight& weight : held) total += weight.live_bytes;
  out << R"({"type":"sampled","name":)" << json_string(name) << R"(,"unit":"bytes","startValue":0,"endValue":)"
      << total.count << ",\"samples\":[";
  for (const StackWeight& weight : held) {
    if (&weight != held.data()) out << ",\n";
    write_stack(tables, weight.stack, out);
  }
  out << "],\"weights\":[";
  for (const StackWeight& weight : held) out << (&weight == held.data() ? "" : ",") << weight.live_bytes.count;
  out << "]}";
}

}  // namespace

void export_speedscope(const Trace& trace, const ExportOptions& options, std::ostream& out) {
  const Tables& tables = trace.tables;
  const std::vector<StackWeight> weights = stack_weights(trace, options.events);
  out << R"({"$schema":"https://www.speedscope.app/file-format-schema.json","exporter":"memreel","name":)"
      << json_string(trace.header.source_name.empty() ? "memreel" : trace.header.source_name)
      << ",\"activeProfileIndex\":0,\"shared\":";
  write_frames(tables, out);
  out << ",\n\"profiles\":[";
  bool is_first = true;
  for (std::uint32_t h = 0; h < tables.heaps.size(); ++h) {
    const std::vector<StackWeight> held = held_in(HeapId{h}, tables, weights);
    if (held.empty()) continue;
    if (!is_first) out << ",\n";
    is_first = false;
    const Heap& heap = tables.heaps[h];
    write_profile(tables[heap.name] + ", device " + std::to_string(heap.device) +
                      (options.events ? ": live memory" : ": live memory at its peak"),
                  held, tables, out);
  }
  if (is_first) write_profile("nothing is live", {}, tables, out);  // it can't open files without a profile
  out << "]}\n";
}

namespace {

constexpr double ns_per_ms = 1e6;
constexpr std::int64_t ns_per_event_without_time = 1000;

/// Numbers texts in order of first use.
class NumberedTexts {
 public:
  std::size_t operator()(const std::string& text) {
    const auto [known, is_new] = numbers_.try_emplace(text, texts_.size());
    if (is_new) texts_.push_back(&known->first);
    return known->second;
  }
  const std::vector<const std::string*>& all() const { return texts_; }

 private:
  std::unordered_map<std::string, std::size_t> numbers_;
  std::vector<const std::string*> texts_;
};

class FirefoxWriter {
 public:
  FirefoxWriter(const Trace& trace, std::ostream& out) : trace_(trace), tables_(trace.tables), out_(out) {
    const auto times = trace_.events.times();
    if (!times.empty()) start_ = *std::min_element(times.begin(), times.end());
    has_times_ = !times.empty() && *std::max_element(times.begin(), times.end()) > start_;
    if (!has_times_) start_ = {};
    std::vector<bool> used(tables_.heaps.size());
    for (const OriginId origin : trace_.events.origins()) used[index(tables_[origin].heap)] = true;
    for (std::uint32_t h = 1; h < used.size(); ++h)
      if (used[h]) heaps_.push_back(HeapId{h});
    allocation_events_.resize(used.size());
    segment_events_.resize(used.size());
    sort_by_heap();
  }

  void write() {
    out_ << R"({"meta":{"interval":1,"startTime":)";
    write_number(static_cast<double>(start_.count()) / ns_per_ms);
    out_ << R"(,"processType":0,"product":)" << json_string("memreel: " + trace_.header.source_name)
         << R"(,"stackwalk":0,"version":24,"preprocessedProfileVersion":66,"symbolicated":true,)"
         << R"("categories":[{"name":"Other","color":"grey","subcategories":["Other"]}],"markerSchema":[],)"
         << R"("sampleUnits":{"time":"ms","eventDelay":"ms","threadCPUDelta":"ns"}},"libs":[],"pages":[],)"
         << "\n\"counters\":[";
    bool first = true;
    for (std::size_t t = 0; t < heaps_.size(); ++t) write_counters(t, first);
    out_ << "],\n\"threads\":[";
    for (std::size_t t = 0; t < heaps_.size(); ++t) write_thread(t);
    out_ << "],\n\"shared\":";
    write_shared();
    out_ << "}\n";
  }

 private:
  // ---- parts of JSON

  void write_number(double number) {
    std::array<char, 32> digits{};
    out_.write(digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr - digits.data());
  }

  template <class Write>
  void write_column(const char* name, std::size_t count, Write write) {
    out_ << '"' << name << "\":[";
    for (std::size_t i = 0; i < count; ++i) {
      if (i > 0) out_ << ',';
      write(i);
    }
    out_ << "],";
  }
  void write_constant(const char* name, std::size_t count, const char* value) {
    write_column(name, count, [&](std::size_t) { out_ << value; });
  }
  void write_time(std::size_t event) { write_number(milliseconds(event)); }

  double milliseconds(std::size_t event) const {
    const std::int64_t ns = has_times_ ? (trace_.events.time(event) - start_).count()
                                       : static_cast<std::int64_t>(event) * ns_per_event_without_time;
    return static_cast<double>(ns) / ns_per_ms;
  }

  std::string pid() const { return json_string(std::to_string(trace_.header.process)); }

  // ---- what events say

  HeapId heap_of(std::size_t event) const { return tables_[trace_.events.origin(event)].heap; }

  /// Sorts the events that begin or end an allocation, each once, and those of segments.
  void sort_by_heap() {
    std::vector<bool> ended(trace_.events.allocation_count());
    for (std::uint32_t i = 0; i < trace_.events.count(); ++i) {
      const EventKind kind = trace_.events.kind(i);
      const AllocationId id = trace_.events.allocation(i);
      if (is_segment(kind)) segment_events_[index(heap_of(i))].push_back(i);
      if ((kind != EventKind::alloc && kind != EventKind::free_requested) || id == AllocationId::none) continue;
      if (ended[index(id)]) continue;
      ended[index(id)] = kind == EventKind::free_requested;
      allocation_events_[index(heap_of(begin_of(i)))].push_back(i);
    }
  }
  const std::vector<std::uint32_t>& allocation_events(HeapId heap) const { return allocation_events_[index(heap)]; }
  const std::vector<std::uint32_t>& segment_events(HeapId heap) const { return segment_events_[index(heap)]; }
  std::size_t begin_of(std::size_t event) const { return trace_.events.begin_of(trace_.events.allocation(event)); }
  std::int64_t change_of(std::size_t event) const {
    const auto bytes = static_cast<std::int64_t>(trace_.events.size(begin_of(event)).count);
    return trace_.events.kind(event) == EventKind::alloc ? bytes : -bytes;
  }

  std::int64_t change_of_segment(std::size_t event) const {
    const EventKind kind = trace_.events.kind(event);
    const auto bytes = static_cast<std::int64_t>(trace_.events.size(event).count);
    return kind == EventKind::segment_alloc || kind == EventKind::segment_map ? bytes : -bytes;
  }

  // ---- counters, threads

  void write_counters(std::size_t thread, bool& first) {
    const HeapId heap = heaps_[thread];
    write_counter(thread, "live", "requested and not freed", allocation_events(heap), first,
                  [&](std::size_t event) { return change_of(event); });
    write_counter(thread, "reserved", "segments of the pool", segment_events(heap), first,
                  [&](std::size_t event) { return change_of_segment(event); });
  }

  template <class Change>
  void write_counter(std::size_t thread, const char* what, const char* description,
                     const std::vector<std::uint32_t>& events, bool& first, Change change) {
    if (events.empty()) return;
    if (!std::exchange(first, false)) out_ << ",\n";
    const std::string name = json_string(heap_label(tables_, heaps_[thread]) + ": " + what);
    out_ << "{\"name\":" << name << R"(,"category":"Memory","description":)" << json_string(description)
         << ",\"pid\":" << pid() << ",\"mainThreadIndex\":" << thread
         << R"(,"display":{"graphType":"line-accumulated","unit":"bytes","color":"orange",)"
         << R"("markerSchemaLocation":null,"sortWeight":20,"label":)" << name
         << R"(,"tooltipRows":[{"type":"value","source":"accumulated","format":{"unit":"bytes"},)"
         << R"("label":"bytes at this time"}]},"samples":{)";
    write_column("time", events.size(), [&](std::size_t i) { write_time(events[i]); });
    write_column("count", events.size(), [&](std::size_t i) { out_ << change(events[i]); });
    out_ << "\"length\":" << events.size() << "}}";
  }

  void write_thread(std::size_t thread) {
    if (thread > 0) out_ << ",\n";
    out_ << R"({"processType":"default","processStartupTime":0,"processShutdownTime":null,"registerTime":0,)"
         << R"("unregisterTime":null,"pausedRanges":[],"isMainThread":)" << (thread == 0 ? "true" : "false")
         << ",\"name\":" << json_string(heap_label(tables_, heaps_[thread])) << ",\"pid\":" << pid()
         << ",\"tid\":" << thread
         << R"(,"samples":{"weightType":"samples","weight":null,"eventDelay":[],"stack":[],"time":[],"length":0},)"
         << '\n';
    const std::vector<std::uint32_t>& events = allocation_events(heaps_[thread]);
    out_ << R"("nativeAllocations":{"weightType":"bytes",)";
    write_column("time", events.size(), [&](std::size_t i) { write_time(events[i]); });
    write_column("weight", events.size(), [&](std::size_t i) { out_ << change_of(events[i]); });
    write_column("stack", events.size(), [&](std::size_t i) {
      const StackId stack = trace_.events.stack(events[i]);
      if (stack == StackId::none)
        out_ << "null";
      else
        out_ << index(stack) - 1;
    });
    // What matches frees to allocations. Addresses are reused, and have more bits than the profiler's numbers.
    write_column("memoryAddress", events.size(),
                 [&](std::size_t i) { out_ << std::uint64_t{index(trace_.events.allocation(events[i]))} + 1; });
    write_constant("threadId", events.size(), "0");
    out_ << "\"length\":" << events.size() << "},\n";
    write_markers(thread);
    out_ << '}';
  }

  void write_markers(std::size_t thread) {
    struct Marker {
      std::size_t event = 0;
      std::size_t name = 0;
      int phase = 0;  // 0: instant, 2: start, 3: end
    };
    std::vector<Marker> markers;
    for (std::size_t i = 0; thread == 0 && i < trace_.events.count(); ++i) {
      const EventKind kind = trace_.events.kind(i);
      if (kind == EventKind::alloc_failed)
        markers.push_back({i, texts_("out of memory: " + text_of(trace_.events.size(i))), 0});
      if (kind != EventKind::mark || trace_.events.address_or_value(i) >= tables_.marks.size()) continue;
      const Mark& mark = tables_.marks[trace_.events.address_or_value(i)];
      const int phase = mark.phase == MarkPhase::instant ? 0 : mark.phase == MarkPhase::begin ? 2 : 3;
      markers.push_back({i, texts_(utf8(tables_[mark.name])), phase});
    }
    const std::size_t count = markers.size();
    const auto write_if = [&](std::size_t i, bool wanted) {
      if (wanted)
        write_time(markers[i].event);
      else
        out_ << "null";
    };
    out_ << "\"markers\":{";
    write_constant("data", count, "null");
    write_column("name", count, [&](std::size_t i) { out_ << markers[i].name; });
    write_column("startTime", count, [&](std::size_t i) { write_if(i, markers[i].phase != 3); });
    write_column("endTime", count, [&](std::size_t i) { write_if(i, markers[i].phase == 3); });
    write_column("phase", count, [&](std::size_t i) { out_ << markers[i].phase; });
    write_constant("category", count, "0");
    out_ << "\"length\":" << count << '}';
  }

  // ---- tables

  /// Stack rows are those of the trace except the first; frame and function rows are all of them.
  void write_shared() {
    const std::size_t stacks = tables_.stacks.size() - 1;
    const std::size_t frames = tables_.frames.size();
    const auto line_of = [&](std::size_t f) { return tables_.frames[f].line; };
    NumberedTexts files;
    out_ << "{\"stackTable\":{";
    write_column("frame", stacks, [&](std::size_t s) { out_ << index(tables_.stacks[s + 1].frame); });
    write_column("prefixOffset", stacks, [&](std::size_t s) {
      const std::uint32_t caller = index(tables_.stacks[s + 1].caller);
      out_ << (caller == 0 ? 0 : s + 1 - caller);
    });
    out_ << "\"length\":" << stacks << "},\n\"frameTable\":{";
    write_constant("address", frames, "-1");
    write_constant("inlineDepth", frames, "0");
    write_constant("category", frames, "0");
    write_constant("subcategory", frames, "0");
    write_column("func", frames, [&](std::size_t f) { out_ << f; });
    write_constant("nativeSymbol", frames, "null");
    write_constant("innerWindowID", frames, "0");
    write_column("line", frames, [&](std::size_t f) {
      if (line_of(f) == 0)
        out_ << "null";
      else
        out_ << line_of(f);
    });
    write_constant("column", frames, "null");
    write_constant("originalLocation", frames, "null");
    out_ << "\"length\":" << frames << "},\n\"funcTable\":{";
    write_column("name", frames,
                 [&](std::size_t f) { out_ << texts_(frame_label(tables_, FrameId(static_cast<std::uint32_t>(f)))); });
    write_constant("isJS", frames, "false");
    write_constant("relevantForJS", frames, "false");
    write_constant("resource", frames, "-1");
    write_column("source", frames, [&](std::size_t f) {
      const FrameText text = frame_text(tables_, FrameId(static_cast<std::uint32_t>(f)));
      const std::string_view file = text.file.empty() ? text.module_path : text.file;
      if (file.empty())
        out_ << "null";
      else
        out_ << files(utf8(file));
    });
    write_constant("lineNumber", frames, "null");
    write_constant("columnNumber", frames, "null");
    write_constant("originalLocation", frames, "null");
    out_ << "\"length\":" << frames << "},\n\"sources\":{";
    const std::size_t sources = files.all().size();
    write_constant("id", sources, "null");
    write_column("filename", sources, [&](std::size_t s) { out_ << texts_(*files.all()[s]); });
    write_constant("startLine", sources, "1");
    write_constant("startColumn", sources, "1");
    write_constant("sourceMapURL", sources, "null");
    write_constant("content", sources, "null");
    out_ << "\"length\":" << sources << R"(},"resourceTable":{"lib":[],"name":[],"host":[],"type":[],"length":0},)"
         << R"("nativeSymbols":{"libIndex":[],"address":[],"name":[],"functionSize":[],"length":0},)"
         << R"("sourceLocationTable":{"source":[],"line":[],"column":[],"length":0},)"
         << "\n\"stringArray\":[";
    for (std::size_t t = 0; t < texts_.all().size(); ++t)
      out_ << (t == 0 ? "" : ",\n") << json_string(*texts_.all()[t]);
    out_ << "]}";
  }

  const Trace& trace_;
  const Tables& tables_;
  std::ostream& out_;
  bool has_times_ = false;
  Nanoseconds start_{};
  std::vector<HeapId> heaps_;  // those that have events: one thread each
  std::vector<std::vector<std::uint32_t>> allocation_events_, segment_events_;  // by HeapId
  NumberedTexts texts_;
};

}  // namespace

void export_firefox(const Trace& trace, const ExportOptions& /*options*/, std::ostream& out) {
  FirefoxWriter(trace, out).write();
}

}  // namespace memreel
