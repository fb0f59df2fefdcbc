// SPDX-License-Identifier: Apache-2.0
#include "formats/export/export.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <ostream>
#include <set>
#include <span>

#include "formats/export/pickle_writer.h"
#include "formats/export/snapshot_segments.h"
#include "formats/model/quantity.h"
#include "formats/model/stack_text.h"
#include "formats/torch/settings.h"

namespace memreel {
namespace {

constexpr std::int32_t host = -1;  // the device of host memory
class SnapshotWriter {
 public:
  SnapshotWriter(const Trace& trace, const ExportOptions& options, std::ostream& out)
      : trace_(trace), tables_(trace.tables), options_(options), pickle_(out), heaps_(torch_heaps(trace)) {
    for (std::size_t h = 0; h < heaps_.size(); ++h)
      if (is_on_device(h)) device_count_ = std::max(device_count_, std::size_t(tables_.heaps[h].device) + 1);
    const auto times = trace_.events.times();
    has_times_ = !times.empty() && times.back() > times.front();
    says_pools_ = std::ranges::none_of(tables_.pools, &Pool::inferred);
    sort_by_device();
    stacks_.resize(tables_.stacks.size());
    frames_.resize(tables_.frames.size());
  }

  void write() {
    pickle_.begin_dict();
    std::vector<TorchSegment> segments = torch_segments_at_end(trace_, heaps_, options_.block_sizes);
    const auto of_host = std::stable_partition(segments.begin(), segments.end(),
                                               [](const TorchSegment& segment) { return segment.device != host; });
    pickle_.text("segments");
    write_segments({segments.begin(), of_host});
    pickle_.text("device_traces");
    pickle_.begin_list();
    for (std::size_t device = 0; device < device_count_; ++device) {
      pickle_.item(device);
      write_history(static_cast<std::int32_t>(device));
    }
    pickle_.end_list(device_count_);
    if (torch_host_heap(tables_)) {
      pickle_.text("host_segments");
      write_segments({of_host, segments.end()});
      pickle_.text("host_traces");
      write_history(host);
    }
    write_settings();
    pickle_.end_dict();
    pickle_.finish();
  }

 private:
  using Memo = PickleWriter::Memo;

  HeapId heap_of(OriginId origin) const { return tables_[origin].heap; }
  const TorchHeap& role_of(OriginId origin) const { return heaps_[index(heap_of(origin))]; }

  bool is_on_device(std::size_t heap) const { return heaps_[heap].shown && tables_.heaps[heap].device >= 0; }

  // ---- the state at the end

  void write_segments(std::span<const TorchSegment> segments) {
    pickle_.begin_list();
    for (std::size_t i = 0; i < segments.size(); ++i) {
      pickle_.item(i);
      write_segment(segments[i]);
    }
    pickle_.end_list(segments.size());
  }

  void write_segment(const TorchSegment& segment) {
    Bytes active, allocated;
    for (const TorchBlock& block : segment.blocks) {
      active += block.size;
      if (!block.pending) allocated += block.size;
    }
    const Pool& pool = tables_[tables_[segment.origin].pool];
    pickle_.begin_dict();
    pickle_.text("device");
    pickle_.integer(std::int64_t{segment.device});
    member("address", segment.address.value);
    member("total_size", segment.size.count);
    member("stream", stream_of(segment.origin));
    pickle_.text("segment_type");
    pickle_.text(is_small(segment) ? "small" : "large");
    member("allocated_size", allocated.count);
    member("active_size", active.count);
    pickle_.text("segment_pool_id");
    write_pool(pool);
    pickle_.text("is_expandable");
    pickle_.boolean(segment.expandable);
    pickle_.text("blocks");
    write_blocks(segment);
    pickle_.end_dict();
  }

  /// Host memory has no pools of large segments.
  static bool is_small(const TorchSegment& segment) {
    return segment.device == host || (!segment.expandable && segment.size <= TorchSettings::small_segment);
  }

  void write_blocks(const TorchSegment& segment) {
    std::size_t count = 0;
    Address at = segment.address;
    pickle_.begin_list();
    const auto write_free_until = [&](Address end) {
      if (at >= end) return;
      pickle_.item(count++);
      write_block({.address = at, .size = end - at, .requested = {}, .stack = StackId::none}, "inactive");
    };
    for (const TorchBlock& block : segment.blocks) {
      write_free_until(block.address);
      pickle_.item(count++);
      write_block(block, block.pending ? "active_pending_free" : "active_allocated");
      at = block.address + block.size;
    }
    write_free_until(segment.address + segment.size);
    pickle_.end_list(count);
  }

  void write_block(const TorchBlock& block, std::string_view state) {
    pickle_.begin_dict();
    member("address", block.address.value);
    member("size", block.size.count);
    member("requested_size", block.requested.count);
    pickle_.text("state");
    pickle_.text(state);
    pickle_.text("frames");
    write_stack(block.stack);
    pickle_.end_dict();
  }

  // ---- the history

  void write_history(std::int32_t device) {
    std::size_t entries = 0;
    TorchHostReserve reserve(trace_);
    pickle_.begin_list();
    for (const std::uint32_t i : events_of_[device]) {
      const Event event = trace_.events[i];
      if (event.kind == EventKind::mark)
        write_mark(event, entries++);
      else
        reserve.apply(event, [&](const Event& e) { write_event(e, entries); });
    }
    pickle_.end_list(entries);
  }

  /// Without the events that stand for what a heap held before the recording: that follows from the segments again.
  void sort_by_device() {
    std::set<HeapId> begins;  // whose events so far all do
    for (const InitialHeap& initial : trace_.initial_heaps) begins.insert(initial.heap);
    for (std::size_t i = 0; i < trace_.events.count(); ++i) {
      const OriginId origin = trace_.events.origin(i);
      const EventKind kind = trace_.events.kind(i);
      if (begins.contains(heap_of(origin)) && (kind == EventKind::alloc || is_free(kind) || is_segment(kind))) {
        if (is_preexisting(trace_.events.stack(i))) continue;
        begins.erase(heap_of(origin));
      }
      if (kind == EventKind::mark)
        events_of_[device_of_mark(origin)].push_back(static_cast<std::uint32_t>(i));
      else if (role_of(origin).shown)
        events_of_[tables_[heap_of(origin)].device].push_back(static_cast<std::uint32_t>(i));
    }
  }

  bool is_preexisting(StackId stack) const {
    if (stack == StackId::none) return false;
    while (tables_[stack].caller != StackId::none) stack = tables_[stack].caller;
    return tables_[tables_[tables_[stack].frame].function] == preexisting_frame;
  }

  void write_event(const Event& event, std::size_t& entries) {
    const TorchHeap& role = role_of(event.origin);
    const bool is_segment_alone = !role.has_segments;
    switch (event.kind) {
      case EventKind::alloc:
        if (is_segment_alone) write_entry("segment_alloc", event, entries++);
        return write_entry("alloc", event, entries++);
      case EventKind::free_requested:
        write_entry("free_requested", event, entries++);
        if (tables_[heap_of(event.origin)].observes_completion) return;
        return write_completed(event, is_segment_alone, entries);
      case EventKind::free_completed:
        return write_completed(event, is_segment_alone, entries);
      case EventKind::segment_alloc:
      case EventKind::segment_free:
      case EventKind::segment_map:
      case EventKind::segment_unmap:
        if (role.has_segments) write_entry(name_of(event.kind), event, entries++);
        return;
      case EventKind::alloc_failed:
        return write_entry("oom", event, entries++);
      default:
        return;
    }
  }

  void write_completed(const Event& event, bool is_segment_alone, std::size_t& entries) {
    write_entry("free_completed", event, entries++);
    if (is_segment_alone) write_entry("segment_free", event, entries++);
  }

  void write_entry(std::string_view action, const Event& event, std::size_t number) {
    pickle_.item(number);
    pickle_.begin_dict();
    pickle_.text("action");
    pickle_.text(action);
    if (event.kind == EventKind::alloc_failed) {
      const auto free = free_when_failed(event.value);
      member("device_free", free.value_or(0_B).count);  // PyTorch's tools need it
      if (!free) member("memreel_free_unknown", 1);
    } else {
      member("addr", event.address.value);
    }
    member("size", event.size.count);
    member("stream", stream_of(event.origin));
    write_time(event.time);
    if (says_pools_ || tables_[heap_of(event.origin)].device == host) {
      pickle_.text("pool_id");
      write_pool(tables_[tables_[event.origin].pool]);
    }
    if (const StringId said = tables_[event.origin].metadata; said != StringId::none) {
      pickle_.text("user_metadata");
      pickle_.text(tables_[said]);
    }
    pickle_.text("frames");
    write_stack(event.stack);
    pickle_.end_dict();
  }

  /// As in PyTorch's own: the range's name is the file of the only frame.
  void write_mark(const Event& event, std::size_t number) {
    if (event.value >= tables_.marks.size()) return write_mark_called({}, "INSTANT", event, number);
    const Mark& mark = tables_.marks[event.value];
    const std::string_view stage = mark.phase == MarkPhase::begin ? "START"
                                   : mark.phase == MarkPhase::end ? "END"
                                                                  : "INSTANT";
    write_mark_called(tables_[mark.name], stage, event, number);
  }

  void write_mark_called(std::string_view name, std::string_view stage, const Event& event, std::size_t number) {
    pickle_.item(number);
    pickle_.begin_dict();
    pickle_.text("action");
    pickle_.text("user_defined");
    member("addr", 0);
    member("size", 0);
    member("stream", 0);
    write_time(event.time);
    pickle_.text("frames");
    pickle_.begin_list();
    pickle_.item(0);
    write_frame(stage, name, 0);  // NOLINT(readability-suspicious-call-argument)
    pickle_.end_list(1);
    pickle_.end_dict();
  }

  /// A loop belongs to the process: a mark without a device goes to the first one.
  std::int32_t device_of_mark(OriginId origin) const {
    if (is_on_device(index(heap_of(origin)))) return tables_[heap_of(origin)].device;
    for (std::size_t h = 0; h < heaps_.size(); ++h)
      if (is_on_device(h)) return tables_.heaps[h].device;
    return 0;
  }

  // ---- parts

  void member(std::string_view key, std::uint64_t value) {
    pickle_.text(key);
    pickle_.integer(value);
  }

  void write_pool(const Pool& pool) {
    if (pool.inferred)
      pickle_.pair(0, 0);
    else
      pickle_.pair(pool.key_high, pool.key_low);
  }

  std::uint64_t stream_of(OriginId origin) const { return tables_[tables_[origin].stream].handle; }

  void write_time(Nanoseconds time) {
    if (!has_times_) return;
    pickle_.text("time_us");
    pickle_.integer(std::int64_t{time.count() / 1000});
  }

  void write_frame(std::string_view name, std::string_view file, std::uint32_t line) {
    pickle_.begin_dict();
    pickle_.text("name");
    pickle_.text(name);
    pickle_.text("filename");
    pickle_.text(file);
    member("line", line);
    pickle_.end_dict();
  }

  void write_stack(StackId stack) {
    std::optional<Memo>& memo = stacks_[index(stack)];
    if (memo) return pickle_.recall(*memo);
    std::size_t count = 0;
    pickle_.begin_list();
    for (StackId s = stack; s != StackId::none; s = tables_[s].caller) {
      pickle_.item(count++);
      const FrameId id = tables_[s].frame;
      std::optional<Memo>& frame_memo = frames_[index(id)];
      if (frame_memo) {
        pickle_.recall(*frame_memo);
        continue;
      }
      const FrameText frame = frame_text(tables_, id);
      const std::string_view file = frame.file.empty() ? frame.module_path : frame.file;
      if (frame.function.empty())
        write_frame(hexadecimal(tables_[id].module_offset), file, frame.line);
      else
        write_frame(frame.function, file, frame.line);
      frame_memo = pickle_.remember();
    }
    pickle_.end_list(count);
    memo = pickle_.remember();
  }

  /// The initial settings of the first device heap that has any; otherwise those of host memory.
  std::vector<std::pair<std::string, std::string>> settings_of_snapshot() const {
    for (std::size_t i = 0; i < trace_.events.count(); ++i) {
      if (trace_.events.kind(i) != EventKind::settings || !is_on_device(index(heap_of(trace_.events.origin(i)))) ||
          trace_.events.address_or_value(i) >= tables_.settings.size())
        continue;
      std::vector<std::pair<std::string, std::string>> settings;
      for (const auto& [key, value] : tables_.settings[trace_.events.address_or_value(i)].entries)
        settings.emplace_back(tables_[key], tables_[value]);
      return settings;
    }
    return torch_host_settings(trace_);
  }

  /// The release is memreel's own key: the other contents of a snapshot would suggest another one.
  void write_settings() {
    std::string release;
    if (const auto settings = settings_of_snapshot(); !settings.empty()) {
      pickle_.text("allocator_settings");
      pickle_.begin_dict();
      for (const auto& [key, value] : settings) {
        if (key == TorchRelease::recorded_key) {
          release = value;
          continue;
        }
        pickle_.text(key);
        write_setting(value);
      }
      pickle_.end_dict();
    }
    pickle_.text(TorchRelease::recorded_key);
    pickle_.text(release);
  }

  void write_setting(std::string_view value) {
    std::int64_t integer = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), integer);
    if (error == std::errc{} && end == value.data() + value.size()) return pickle_.integer(integer);
    if (value == "True" || value == "False") return pickle_.boolean(value == "True");
    pickle_.text(value);
  }

  const Trace& trace_;
  const Tables& tables_;
  const ExportOptions& options_;
  PickleWriter pickle_;
  std::vector<TorchHeap> heaps_;                                  // by HeapId
  std::map<std::int32_t, std::vector<std::uint32_t>> events_of_;  // by device
  std::size_t device_count_ = 0;
  bool has_times_ = false, says_pools_ = false;
  std::vector<std::optional<Memo>> stacks_, frames_;  // by StackId, FrameId
};

}  // namespace

void export_torch_snapshot(const Trace& trace, const ExportOptions& options, std::ostream& out) {
  SnapshotWriter(trace, options, out).write();
}

}  // namespace memreel
