#include "formats/export/torch_snapshot.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "formats/export/device_heaps.h"
#include "formats/export/pickle_writer.h"
#include "formats/model/live_set.h"
#include "formats/model/origin_text.h"
#include "formats/model/stack_text.h"

namespace memreel {
namespace {

/// PyTorch's kSmallBuffer: segments of the small pools.
constexpr Bytes small_segment = 2_MiB;
/// A snapshot has a list for each ordinal up to the highest.
constexpr std::int32_t most_devices = 1'000;

/// What lies in a segment at the end.
struct Piece {
  Address address;
  Bytes size, requested;
  bool pending = false;
  StackId stack = StackId::none;
};

struct SegmentAtEnd {
  std::int32_t device = 0;
  Address address;
  Bytes size;
  OriginId origin = OriginId::none;
  bool expandable = false;
  std::vector<Piece> pieces;  // by address
};

class SnapshotWriter {
 public:
  SnapshotWriter(const Trace& trace, const ExportOptions& options, std::ostream& out)
      : trace_(trace), tables_(trace.tables), options_(options), pickle_(out) {
    heaps_.resize(tables_.heaps.size());
    const std::vector<bool> shown = device_heaps(tables_);
    for (std::uint32_t h = 1; h < heaps_.size(); ++h) {
      heaps_[h].shown = shown[h] && tables_.heaps[h].device < most_devices;
      if (heaps_[h].shown) device_count_ = std::max(device_count_, std::size_t(tables_.heaps[h].device) + 1);
    }
    for (std::size_t i = 0; i < trace_.events.count(); ++i) {
      const HeapId heap = heap_of(trace_.events.origin[i]);
      if (is_segment(trace_.events.kind[i]) && tables_[heap].level == Level::framework)
        heaps_[index(heap)].has_segments = true;
    }
    const auto& times = trace_.events.time;
    has_times_ = !times.empty() && times.back() > times.front();
    says_pools_ = tables_.pools.size() > 1 && std::ranges::none_of(tables_.pools, &Pool::inferred);
    sort_by_device();
    stacks_.resize(tables_.stacks.size());
    frames_.resize(tables_.frames.size());
  }

  void write() {
    pickle_.begin_dict();
    pickle_.text("segments");
    write_segments();
    pickle_.text("device_traces");
    pickle_.begin_list();
    for (std::size_t device = 0; device < device_count_; ++device) {
      pickle_.item(device);
      write_history(static_cast<std::int32_t>(device));
    }
    pickle_.end_list(device_count_);
    write_settings();
    pickle_.end_dict();
    pickle_.finish();
  }

 private:
  struct HeapRole {
    bool shown = false;
    bool has_segments = false;  // else each allocation is one
  };
  using Memo = PickleWriter::Memo;

  HeapId heap_of(OriginId origin) const { return tables_[origin].heap; }
  const HeapRole& role_of(OriginId origin) const { return heaps_[index(heap_of(origin))]; }

  // ---- the state at the end

  Bytes block_size(AllocationId id, Bytes requested) const {
    const std::size_t i = index(id);
    return i < options_.block_sizes.size() ? std::max(requested, options_.block_sizes[i]) : requested;
  }

  std::vector<SegmentAtEnd> segments_at_end() const {
    LiveSet live(tables_);
    for (std::size_t i = 0; i < trace_.events.count(); ++i) {
      Event event = trace_.events[i];
      live.apply(event);
    }
    const HeapSnapshot end = live.snapshot();
    std::map<std::pair<HeapId, Address>, SegmentAtEnd> found;
    for (const LiveSegment& segment : end.segments) {
      if (!role_of(segment.origin).shown || !role_of(segment.origin).has_segments) continue;
      const HeapId heap = heap_of(segment.origin);
      found[{heap, segment.address}] = {.device = tables_[heap].device,
                                        .address = segment.address,
                                        .size = segment.size,
                                        .origin = segment.origin,
                                        .expandable = segment.mapped,
                                        .pieces = {}};
    }
    for (const LiveAllocation& allocation : end.allocations)
      if (role_of(allocation.origin).shown) place(allocation, found);
    std::vector<SegmentAtEnd> segments;
    for (auto& [key, segment] : found) segments.push_back(std::move(segment));
    for (SegmentAtEnd& segment : segments) tile(segment);
    return segments;
  }

  /// In its segment, or as one.
  void place(const LiveAllocation& allocation, std::map<std::pair<HeapId, Address>, SegmentAtEnd>& found) const {
    if (allocation.size == 0_B) return;
    const Piece piece{.address = allocation.address,
                      .size = block_size(allocation.allocation, allocation.size),
                      .requested = allocation.size,
                      .pending = allocation.pending,
                      .stack = allocation.stack};
    const HeapId heap = heap_of(allocation.origin);
    auto after = found.upper_bound({heap, piece.address});
    if (after != found.begin()) {
      SegmentAtEnd& before = std::prev(after)->second;
      if (std::prev(after)->first.first == heap && piece.address < before.address + before.size) {
        before.pieces.push_back(piece);
        return;
      }
    }
    found[{heap, piece.address}] = {.device = tables_[heap].device,
                                    .address = piece.address,
                                    .size = piece.size,
                                    .origin = allocation.origin,
                                    .expandable = false,
                                    .pieces = {piece}};
  }

  /// Orders the pieces; those that would overlap another one, as in a damaged recording, go.
  static void tile(SegmentAtEnd& segment) {
    std::ranges::sort(segment.pieces, {}, &Piece::address);
    std::vector<Piece> kept;
    Address end = segment.address;
    for (std::size_t i = 0; i < segment.pieces.size(); ++i) {
      Piece piece = segment.pieces[i];
      if (piece.address < end) continue;
      const Address limit = std::min(segment.address + segment.size,
                                     i + 1 < segment.pieces.size() ? segment.pieces[i + 1].address : max_end);
      piece.size = std::min(piece.size, limit - piece.address);
      piece.requested = std::min(piece.requested, piece.size);
      if (piece.size == 0_B) continue;
      end = piece.address + piece.size;
      kept.push_back(piece);
    }
    segment.pieces = std::move(kept);
  }

  void write_segments() {
    const std::vector<SegmentAtEnd> segments = segments_at_end();
    pickle_.begin_list();
    for (std::size_t i = 0; i < segments.size(); ++i) {
      pickle_.item(i);
      write_segment(segments[i]);
    }
    pickle_.end_list(segments.size());
  }

  void write_segment(const SegmentAtEnd& segment) {
    Bytes active, allocated;
    for (const Piece& piece : segment.pieces) {
      active += piece.size;
      if (!piece.pending) allocated += piece.size;
    }
    const Pool& pool = tables_[tables_[segment.origin].pool];
    pickle_.begin_dict();
    member("device", static_cast<std::uint64_t>(segment.device));
    member("address", segment.address.value);
    member("total_size", segment.size.count);
    member("stream", stream_of(segment.origin));
    pickle_.text("segment_type");
    pickle_.text(!segment.expandable && segment.size <= small_segment ? "small" : "large");
    member("allocated_size", allocated.count);
    member("active_size", active.count);
    pickle_.text("segment_pool_id");
    if (pool.inferred)
      pickle_.pair(0, 0);
    else
      pickle_.pair(pool.key_high, pool.key_low);
    pickle_.text("is_expandable");
    pickle_.boolean(segment.expandable);
    pickle_.text("blocks");
    write_blocks(segment);
    pickle_.end_dict();
  }

  void write_blocks(const SegmentAtEnd& segment) {
    std::size_t count = 0;
    Address at = segment.address;
    pickle_.begin_list();
    const auto write_free_until = [&](Address end) {
      if (at >= end) return;
      pickle_.item(count++);
      write_block({.address = at, .size = end - at, .requested = {}, .stack = StackId::none}, "inactive");
    };
    for (const Piece& piece : segment.pieces) {
      write_free_until(piece.address);
      pickle_.item(count++);
      write_block(piece, piece.pending ? "active_pending_free" : "active_allocated");
      at = piece.address + piece.size;
    }
    write_free_until(segment.address + segment.size);
    pickle_.end_list(count);
  }

  void write_block(const Piece& piece, std::string_view state) {
    pickle_.begin_dict();
    member("address", piece.address.value);
    member("size", piece.size.count);
    member("requested_size", piece.requested.count);
    pickle_.text("state");
    pickle_.text(state);
    pickle_.text("frames");
    write_stack(piece.stack);
    pickle_.end_dict();
  }

  // ---- the history

  void write_history(std::int32_t device) {
    std::size_t entries = 0;
    pickle_.begin_list();
    for (const std::uint32_t i : events_of_[device]) {
      const Event event = trace_.events[i];
      if (event.kind == EventKind::mark)
        write_mark(event, entries++);
      else
        write_event(event, entries);
    }
    pickle_.end_list(entries);
  }

  void sort_by_device() {
    for (std::size_t i = 0; i < trace_.events.count(); ++i) {
      const OriginId origin = trace_.events.origin[i];
      if (trace_.events.kind[i] == EventKind::mark)
        events_of_[device_of_mark(origin)].push_back(static_cast<std::uint32_t>(i));
      else if (role_of(origin).shown)
        events_of_[tables_[heap_of(origin)].device].push_back(static_cast<std::uint32_t>(i));
    }
  }

  void write_event(const Event& event, std::size_t& entries) {
    const HeapRole& role = role_of(event.origin);
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
    if (event.kind == EventKind::alloc_failed)
      member("device_free", event.value);
    else
      member("addr", event.address.value);
    member("size", event.size.count);
    member("stream", stream_of(event.origin));
    write_time(event.time);
    if (says_pools_) {
      const Pool& pool = tables_[tables_[event.origin].pool];
      pickle_.text("pool_id");
      pickle_.pair(pool.key_high, pool.key_low);
    }
    if (const StringId said = tables_[event.origin].metadata; said != StringId::none) {
      pickle_.text("user_metadata");
      pickle_.text(tables_[said]);
    }
    pickle_.text("frames");
    write_stack(event.stack);
    pickle_.end_dict();
  }

  /// As PyTorch's own: the range's name is the file of the only frame.
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
    write_frame(stage, name, 0);
    pickle_.end_list(1);
    pickle_.end_dict();
  }

  /// A loop is the process's: a mark that is of no device goes to the first.
  std::int32_t device_of_mark(OriginId origin) const {
    if (role_of(origin).shown) return tables_[heap_of(origin)].device;
    const auto first = std::ranges::find(heaps_, true, &HeapRole::shown);
    return first == heaps_.end() ? 0 : tables_.heaps[static_cast<std::size_t>(first - heaps_.begin())].device;
  }

  // ---- parts

  void member(std::string_view key, std::uint64_t value) {
    pickle_.text(key);
    pickle_.integer(value);
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

  /// Those that the first heap which has any had first. The release that an import adds is not PyTorch's.
  void write_settings() {
    const Settings* settings = nullptr;
    for (std::size_t i = 0; i < trace_.events.count() && settings == nullptr; ++i)
      if (trace_.events.kind[i] == EventKind::settings && role_of(trace_.events.origin[i]).shown &&
          trace_.events.address_or_value[i] < tables_.settings.size())
        settings = &tables_.settings[trace_.events.address_or_value[i]];
    if (settings == nullptr) return;
    std::string_view release;
    pickle_.text("allocator_settings");
    pickle_.begin_dict();
    for (const auto& [key, value] : settings->entries) {
      if (tables_[key] == "pytorch_release") {
        release = tables_[value];
        continue;
      }
      pickle_.text(tables_[key]);
      write_setting(tables_[value]);
    }
    pickle_.end_dict();
    // What tells the release.
    static constexpr std::array<std::string_view, 4> without_annotations{"2.1", "2.2", "2.3", "2.3 or 2.4"};
    if (std::ranges::count(without_annotations, release) == 0) {
      pickle_.text("external_annotations");
      pickle_.begin_list();
      pickle_.end_list(0);
    }
    if (!release.starts_with("2.14")) return;
    pickle_.text("host_traces");
    pickle_.begin_list();
    pickle_.end_list(0);
  }

  void write_setting(std::string_view value) {
    std::int64_t integer = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), integer);
    if (error == std::errc{} && end == value.data() + value.size()) return pickle_.integer(integer);
    if (value == "True" || value == "False") return pickle_.boolean(value == "True");
    pickle_.text(value);
  }

  static constexpr Address max_end{~std::uint64_t{0}};

  const Trace& trace_;
  const Tables& tables_;
  const ExportOptions& options_;
  PickleWriter pickle_;
  std::vector<HeapRole> heaps_;                                   // by HeapId
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
