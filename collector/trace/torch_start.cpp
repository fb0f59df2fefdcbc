// SPDX-License-Identifier: Apache-2.0
#include "collector/trace/trace_builder.h"

#include <algorithm>

namespace memreel::agent {
namespace {

bool has(const Record& segment, SnapshotSegment what) { return (segment.status & static_cast<unsigned>(what)) != 0; }

/// Whether mapped memory belongs to the same expandable segment as the memory before it. What is adjacent would have
/// been listed as one; a range has addresses for more than the device's memory, so those of two ranges are farther
/// apart than `most`, what was unmapped between memory of one.
bool continues(const InitialSegment& previous, const InitialSegment& next, Bytes most) {
  const Address end = previous.address + previous.size;
  return previous.mapped && next.mapped && previous.origin == next.origin && previous.small == next.small &&
         end < next.address && next.address - end <= most;
}

}  // namespace

void TorchStart::add(const Record& record) {
  if (!asked_) return;
  if (record.kind == RecordKind::snapshot_segment)
    segments_.push_back({.record = record, .blocks = {}});
  else if (!segments_.empty())
    segments_.back().blocks.push_back(record);
}

bool TorchStart::precedes_all(bool exact) {
  if (!asked_ || !exact || late_) return false;
  for (const Segment& segment : segments_) {
    std::uint64_t sum = 0;
    for (const Record& block : segment.blocks) sum += block.size;
    if (sum != segment.record.size) return false;  // records were lost
  }
  waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(taken_));
  return true;
}

std::vector<TorchStart::Segment> TorchStart::end() {
  asked_ = false;
  std::ranges::sort(segments_, {}, [](const Segment& segment) { return segment.record.address; });
  return std::exchange(segments_, {});
}

bool TorchStart::waits(const Record& record) {
  constexpr std::int64_t longest_ns = 5'000'000'000;
  constexpr std::size_t most = std::size_t{1} << 17U;
  if (!asked_) return false;
  seen_.insert(record.address);
  if (!began_) began_ = record.time;
  late_ = late_ || record.time - *began_ > longest_ns || waiting_.size() >= most;
  if (!late_) waiting_.push_back(record);
  return !late_;
}

InitialHeap initial_heap(HeapId heap, std::span<const TorchStart::Segment> segments,
                         std::span<const OriginId> origins) {
  InitialHeap initial{.heap = heap, .segments = {}};
  Bytes most = 4_GiB;
  for (const TorchStart::Segment& segment : segments) most += Bytes{segment.record.size};
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const Record& record = segments[i].record;
    InitialSegment row{.address = {record.address},
                       .size = {record.size},
                       .origin = origins[i],
                       .small = has(record, SnapshotSegment::small),
                       .mapped = has(record, SnapshotSegment::expandable),
                       .range = {record.address},
                       .blocks = {}};
    if (!initial.segments.empty() && continues(initial.segments.back(), row, most))
      row.range = initial.segments.back().range;
    for (const Record& block : segments[i].blocks) {
      const auto use = static_cast<InitialUse>(block.status);
      if (use == InitialUse::free && !row.blocks.empty() && row.blocks.back().use == use)
        row.blocks.back().size += Bytes{block.size};
      else
        row.blocks.push_back({.size = {block.size}, .use = use});
    }
    initial.segments.push_back(std::move(row));
  }
  return initial;
}

/// Adds the events for what of a segment was not seen to begin or end.
void TraceBuilder::torch_held(const TorchStart::Segment& segment, std::vector<Event>& events) {
  const auto add = [&](Record record, RecordKind kind, std::uint64_t size) {
    record.kind = kind;
    record.size = size;
    record.status = 0;
    record.stream = segment.record.stream;
    const Pool pool = torch_pool(record);
    for (Event event : torch_heaps_.events(record, ThreadId::unknown, driver_heap(record.device), pool)) {
      event.stack = preexisting_stack();
      event.time = Nanoseconds(record.time);
      events.push_back(event);
    }
  };
  const bool mapped = (segment.record.status & static_cast<unsigned>(SnapshotSegment::expandable)) != 0;
  if (!torch_start_.was_seen(segment.record.address) || torch_known_)
    add(segment.record, mapped ? RecordKind::mapped : RecordKind::segment_added, segment.record.size);
  for (const Record& block : segment.blocks) {
    const auto use = static_cast<InitialUse>(block.status);
    if (use == InitialUse::free || (torch_start_.was_seen(block.address) && !torch_known_)) continue;
    const std::uint64_t requested = block.stream != 0 ? block.stream : block.size;
    add(block, RecordKind::alloc, requested);
    if (use == InitialUse::pending) add(block, RecordKind::free_requested, requested);
    ++held_before_;
  }
}

void TraceBuilder::end_snapshot(const Record& record) {
  torch_known_ = torch_start_.precedes_all(record.status == 1);
  if (!torch_known_) finish();
  std::map<std::int16_t, std::vector<TorchStart::Segment>> devices;
  for (TorchStart::Segment& segment : torch_start_.end()) devices[segment.record.device].push_back(std::move(segment));
  for (const auto& [device, segments] : devices) {
    std::vector<Event> events;
    std::vector<OriginId> origins;
    for (const TorchStart::Segment& segment : segments) {
      const std::size_t first = events.size();
      torch_held(segment, events);
      if (events.size() > first) origins.push_back(events.back().origin);
    }
    if (torch_known_ && begun_.insert(device).second)
      writer_->add_initial_heap(initial_heap(writer_->tables()[origins.front()].heap, segments, origins));
    // Segments come before the allocations in them, as in other traces of recordings that began late.
    std::ranges::stable_partition(
        events, [](const Event& event) { return event.kind != EventKind::alloc && !is_free(event.kind); });
    for (const Event& event : events) append(record, event);
  }
  finish();
}

}  // namespace memreel::agent
