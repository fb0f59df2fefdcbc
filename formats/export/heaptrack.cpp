// SPDX-License-Identifier: Apache-2.0
#include "formats/export/exporters.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <ostream>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "formats/export/gzip_stream.h"
#include "formats/export/row.h"
#include "formats/export/stack_weights.h"
#include "formats/model/stack_text.h"

namespace memreel {
namespace {

constexpr std::uint64_t system_page = 4096;

class HeaptrackWriter {
 public:
  HeaptrackWriter(const Trace& trace, std::ostream& out)
      : trace_(trace), file_(out), shown_(device_heaps(trace.tables)), ended_(trace.allocation_events.size()) {}

  void write() {
    line('v', {0x010400, 3});
    file_.write("X " + one_line(trace_.header.source_name.empty() ? "GPU memory" : trace_.header.source_name) + "\n");
    line('I', {system_page, 0});
    const EventColumns& events = trace_.events;
    for (std::size_t i = 0; i < events.count(); ++i) {
      tell_time(i);
      const EventKind kind = events.kind[i];
      if (is_segment(kind) && shown_[index(trace_.tables[events.origin[i]].heap)]) {
        const bool more = kind == EventKind::segment_alloc || kind == EventKind::segment_map;
        reserved_ = more ? reserved_ + events.size[i] : reserved_ - std::min(reserved_, events.size[i]);
      }
      const AllocationId id = events.allocation[i];
      if ((kind != EventKind::alloc && kind != EventKind::free_requested) || id == AllocationId::none) continue;
      const std::size_t begin = trace_.allocation_events[index(id)];
      const HeapId heap = trace_.tables[events.origin[begin]].heap;
      if (!shown_[index(heap)] || ended_[index(id)]) continue;
      ended_[index(id)] = kind == EventKind::free_requested;
      const std::uint64_t info = info_of(events.size[begin], trace_of(heap, events.stack[begin]));
      line(kind == EventKind::alloc ? '+' : '-', {info});
    }
    tell_reserved();
    file_.finish();
  }

 private:
  using Number = std::uint64_t;  // of strings, places and traces from 1 on; 0: none

  void line(char mode, std::initializer_list<std::uint64_t> numbers, std::string_view words = {}) {
    text_.assign(1, mode);
    for (const std::uint64_t number : numbers) {
      std::array<char, 16> digits{};
      text_ += ' ';
      text_.append(digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), number, 16).ptr);
    }
    if (!words.empty()) text_.append(1, ' ').append(words);
    text_ += '\n';
    file_.write(text_);
  }

  static std::string one_line(std::string_view text) {
    std::string line = utf8(text);
    std::ranges::replace_if(
        line, [](char c) { return static_cast<unsigned char>(c) < ' '; }, ' ');
    return line;
  }

  void tell_time(std::size_t event) {
    const auto& times = trace_.events.time;
    const std::int64_t ms = (times[event] - times.front()).count() / 1'000'000;
    if (ms <= last_ms_) return;
    tell_reserved();
    last_ms_ = ms;
    line('c', {static_cast<std::uint64_t>(ms)});
  }

  void tell_reserved() {
    if (reserved_ == told_reserved_) return;
    told_reserved_ = reserved_;
    line('R', {reserved_.count / system_page});
  }

  Number string(std::string_view text) {
    if (text.empty()) return 0;
    const auto [known, is_new] = strings_.try_emplace(one_line(text), strings_.size() + 1);
    if (is_new) line('s', {known->first.size()}, known->first);
    return known->second;
  }

  Number place_of(FrameId frame) {
    const auto known = places_.find(frame);
    if (known != places_.end()) return known->second;
    const FrameText text = frame_text(trace_.tables, frame);
    const Number module = string(text.module_path.empty() ? text.file : text.module_path);
    const Number function = string(frame_label(trace_.tables, frame));
    const Number file = string(text.file);
    return places_[frame] = add_place(module, function, file, text.line);
  }

  /// heaptrack distinguishes places by address: each gets one.
  Number add_place(Number module, Number function, Number file, std::uint32_t line_number) {
    ++place_count_;
    line('i', {place_count_, module, function, file, line_number});
    return place_count_;
  }

  Number trace_of(HeapId heap, StackId stack) {
    std::vector<StackId> missing;
    Number trace = 0;
    for (; stack != StackId::none; stack = trace_.tables[stack].caller) {
      const auto known = traces_.find({heap, stack});
      if (known != traces_.end()) {
        trace = known->second;
        break;
      }
      missing.push_back(stack);
    }
    if (trace == 0) trace = root_of(heap);
    for (; !missing.empty(); missing.pop_back()) {
      const Number place = place_of(trace_.tables[missing.back()].frame);
      trace = traces_[{heap, missing.back()}] = add_trace(place, trace);
    }
    return trace;
  }

  Number root_of(HeapId heap) {
    Number& trace = traces_[{heap, StackId::none}];
    if (trace == 0) {
      const Number name = string(heap_label(trace_.tables, heap));
      trace = add_trace(add_place(name, name, 0, 0), 0);
    }
    return trace;
  }

  Number add_trace(Number place, Number parent) {
    line('t', {place, parent});
    return ++trace_count_;
  }

  Number info_of(Bytes size, Number trace) {
    const auto [known, is_new] = infos_.try_emplace({trace, size}, infos_.size());
    if (is_new) line('a', {size.count, trace});
    return known->second;
  }

  const Trace& trace_;
  GzipStream file_;
  std::vector<bool> shown_, ended_;
  std::string text_;
  std::unordered_map<std::string, Number> strings_;
  std::map<FrameId, Number> places_;
  std::map<std::pair<HeapId, StackId>, Number> traces_;
  std::map<std::pair<Number, Bytes>, Number> infos_;
  Number place_count_ = 0, trace_count_ = 0;
  std::int64_t last_ms_ = -1;
  Bytes reserved_, told_reserved_;
};

}  // namespace

void export_heaptrack(const Trace& trace, const ExportOptions& /*options*/, std::ostream& out) {
  HeaptrackWriter(trace, out).write();
}

}  // namespace memreel
