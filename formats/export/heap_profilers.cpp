// SPDX-License-Identifier: Apache-2.0
// Profiles as heap profilers of the CPU write them: Valgrind's DHAT, and heaptrack.
#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <ostream>
#include <unordered_map>

#include "formats/export/export.h"
#include "formats/export/row.h"
#include "formats/export/stack_weights.h"
#include "formats/model/flat_map.h"
#include "formats/model/stack_text.h"

namespace memreel {
namespace {

/// An amount of memory and its number of pieces.
struct Amount {
  std::uint64_t bytes = 0, blocks = 0;
};

struct ProgramPoint {
  StackId stack = StackId::none;
  HeapId heap = HeapId::none;
  Amount total, live, most, at_peak;
  std::uint64_t lifetimes_us = 0;
};

struct SiteKey {
  StackId stack = StackId::none;
  HeapId heap = HeapId::none;
  friend bool operator==(const SiteKey&, const SiteKey&) = default;
};
struct SiteKeyHash {
  std::uint64_t operator()(const SiteKey& key) const {
    return mix_bits(std::uint64_t{index(key.stack)} << 32U | index(key.heap));
  }
};

class DhatWriter {
 public:
  DhatWriter(const Trace& trace, std::ostream& out) : trace_(trace), out_(out), shown_(device_heaps(trace.tables)) {}

  void write() {
    const std::size_t peak = find_peak();
    for (std::size_t i = 0; i < trace_.events.count(); ++i) {
      add(i);
      if (i + 1 == peak)
        for (ProgramPoint& point : points_) point.at_peak = point.live;
    }
    const std::uint64_t end = time_us(trace_.events.count() == 0 ? 0 : trace_.events.count() - 1);
    for (std::size_t a = 0; a < trace_.events.allocation_count(); ++a) end_life(AllocationId(a), end);
    out_ << R"({"dhatFileVersion":2,"mode":"heap","verb":"Allocated","bklt":true,"bkacc":false,)"
         << R"("tu":"us","Mtu":"s","tuth":500,"cmd":)" << json_string(trace_.header.source_name)
         << ",\"pid\":" << trace_.header.process << ",\"te\":" << end
         << ",\"tg\":" << (peak == 0 ? 0 : time_us(peak - 1)) << ",\n\"pps\":[";
    for (std::size_t p = 0; p < points_.size(); ++p) {
      if (p > 0) out_ << ",\n";
      write_point(points_[p]);
    }
    out_ << "],\n\"ftbl\":[\"[root]\"";
    for (const std::string& frame : frames_) out_ << ",\n" << frame;
    out_ << "]}\n";
  }

 private:
  std::uint64_t time_us(std::size_t event) const {
    const auto times = trace_.events.times();
    if (times.empty()) return 0;
    return static_cast<std::uint64_t>(std::max<std::int64_t>((times[event] - times.front()).count() / 1000, 0));
  }

  /// The allocation that an event begins or ends, if it is shown.
  AllocationId allocation_of(std::size_t i) const {
    const EventKind kind = trace_.events.kind(i);
    const AllocationId id = trace_.events.allocation(i);
    if ((kind != EventKind::alloc && kind != EventKind::free_requested) || id == AllocationId::none)
      return AllocationId::none;
    return shown_[index(heap_of(id))] ? id : AllocationId::none;
  }
  std::size_t begin_of(AllocationId id) const { return trace_.events.begin_of(id); }
  HeapId heap_of(AllocationId id) const { return trace_.tables[trace_.events.origin(begin_of(id))].heap; }

  /// How many events had happened when all heaps together held the most.
  std::size_t find_peak() const {
    Bytes live, most;
    std::size_t events = 0;
    std::vector<bool> ended(trace_.events.allocation_count());
    for (std::size_t i = 0; i < trace_.events.count(); ++i) {
      const AllocationId id = allocation_of(i);
      if (id == AllocationId::none || ended[index(id)]) continue;
      const Bytes size = trace_.events.size(begin_of(id));
      if (trace_.events.kind(i) == EventKind::alloc) {
        live += size;
      } else {
        live -= size;
        ended[index(id)] = true;
      }
      if (live <= most) continue;
      most = live;
      events = i + 1;
    }
    return events;
  }

  void add(std::size_t i) {
    const AllocationId id = allocation_of(i);
    if (id == AllocationId::none) return;
    if (trace_.events.kind(i) == EventKind::free_requested) return end_life(id, time_us(i), true);
    const SiteKey key{trace_.events.stack(i), heap_of(id)};
    std::uint32_t number = numbers_.find(key);
    if (number == absent) {
      number = static_cast<std::uint32_t>(points_.size());
      numbers_.put(key, number);
      points_.push_back({.stack = key.stack, .heap = key.heap});
    }
    ProgramPoint& point = points_[number];
    const std::uint64_t bytes = trace_.events.size(i).count;
    point.total = {point.total.bytes + bytes, point.total.blocks + 1};
    point.live = {point.live.bytes + bytes, point.live.blocks + 1};
    if (point.live.bytes > point.most.bytes) point.most = point.live;
    point_of_.resize(trace_.events.allocation_count(), absent);
    point_of_[index(id)] = number;
  }

  /// Called once; what is not `freed` stays live to the end.
  void end_life(AllocationId id, std::uint64_t now_us, bool freed = false) {
    if (index(id) >= point_of_.size() || point_of_[index(id)] == absent) return;
    ProgramPoint& point = points_[point_of_[index(id)]];
    point_of_[index(id)] = absent;
    const std::uint64_t begin = time_us(begin_of(id));
    point.lifetimes_us += now_us > begin ? now_us - begin : 0;
    if (freed) point.live = {point.live.bytes - trace_.events.size(begin_of(id)).count, point.live.blocks - 1};
  }

  void write_amount(const char* bytes, const char* blocks, const Amount& amount) {
    out_ << ",\"" << bytes << "\":" << amount.bytes << ",\"" << blocks << "\":" << amount.blocks;
  }

  void write_point(const ProgramPoint& point) {
    out_ << "{\"tb\":" << point.total.bytes << ",\"tbk\":" << point.total.blocks << ",\"tl\":" << point.lifetimes_us;
    write_amount("mb", "mbk", point.most);
    write_amount("gb", "gbk", point.at_peak);
    write_amount("eb", "ebk", point.live);
    out_ << ",\"fs\":[";
    for (StackId s = point.stack; s != StackId::none; s = trace_.tables[s].caller)
      out_ << frame_number(trace_.tables[s].frame) << ',';
    out_ << heap_number(point.heap) << "]}";
  }

  std::size_t frame_number(FrameId frame) {
    const auto [known, is_new] = frame_numbers_.try_emplace(frame, frames_.size() + 1);
    if (is_new) frames_.push_back(json_string(text_of_frame(frame)));
    return known->second;
  }

  std::size_t heap_number(HeapId heap) {
    const auto [known, is_new] = heap_numbers_.try_emplace(heap, frames_.size() + 1);
    if (is_new) frames_.push_back(json_string(heap_label(trace_.tables, heap)));
    return known->second;
  }

  /// As Valgrind writes it: "0x10F21: f (file.c:3)", "0x10F21: f (in libfile.so)".
  std::string text_of_frame(FrameId frame) const {
    const FrameText text = frame_text(trace_.tables, frame);
    std::string line = "0x0: " + frame_label(trace_.tables, frame);
    if (!text.file.empty()) return line + " (" + std::string(text.file) + ":" + std::to_string(text.line) + ")";
    return text.module_path.empty() ? line : line + " (in " + std::string(text.module_path) + ")";
  }

  const Trace& trace_;
  std::ostream& out_;
  std::vector<bool> shown_;
  FlatMap<SiteKey, SiteKeyHash> numbers_;  // of points
  std::vector<ProgramPoint> points_;
  std::vector<std::uint32_t> point_of_;  // by AllocationId; absent: it ended
  std::map<FrameId, std::size_t> frame_numbers_;
  std::map<HeapId, std::size_t> heap_numbers_;
  std::vector<std::string> frames_;  // from number 1 on
};

}  // namespace

void export_dhat(const Trace& trace, const ExportOptions& /*options*/, std::ostream& out) {
  DhatWriter(trace, out).write();
}

namespace {

constexpr std::uint64_t system_page = 4096;

class HeaptrackWriter {
 public:
  HeaptrackWriter(const Trace& trace, std::ostream& out)
      : trace_(trace), file_(out), shown_(device_heaps(trace.tables)), ended_(trace.events.allocation_count()) {}

  void write() {
    line('v', {0x010400, 3});
    file_.write("X " + one_line(trace_.header.source_name.empty() ? "GPU memory" : trace_.header.source_name) + "\n");
    line('I', {system_page, 0});
    const Events& events = trace_.events;
    for (std::size_t i = 0; i < events.count(); ++i) {
      tell_time(i);
      const EventKind kind = events.kind(i);
      if (is_segment(kind) && shown_[index(trace_.tables[events.origin(i)].heap)]) {
        const bool more = kind == EventKind::segment_alloc || kind == EventKind::segment_map;
        reserved_ = more ? reserved_ + events.size(i) : reserved_ - std::min(reserved_, events.size(i));
      }
      const AllocationId id = events.allocation(i);
      if ((kind != EventKind::alloc && kind != EventKind::free_requested) || id == AllocationId::none) continue;
      const std::size_t begin = trace_.events.begin_of(id);
      const HeapId heap = trace_.tables[events.origin(begin)].heap;
      if (!shown_[index(heap)] || ended_[index(id)]) continue;
      ended_[index(id)] = kind == EventKind::free_requested;
      const std::uint64_t info = info_of(events.size(begin), trace_of(heap, events.stack(begin)));
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
    const auto times = trace_.events.times();
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
