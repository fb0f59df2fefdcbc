// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/completed_trace.h"

#include <algorithm>
#include <iterator>

#include "analyzer/replay/torch_rules.h"
#include "formats/model/repeated_frees.h"

namespace memreel {
std::size_t complete_trace(Trace& trace) {
  const std::size_t repeated = part_with_repeated_frees(trace);
  if (trace.initial_heaps.empty()) trace.initial_heaps = restated_heaps(trace);
  const std::size_t tied = tie_levels(trace);
  const std::size_t inferred = infer_torch_calls(trace);
  return repeated + tied + inferred + add_lost_frees(trace);
}

bool may_be_completed(const Header& header, const Tables& tables, bool lacks_frees) {
  return lacks_frees || std::ranges::any_of(tables.heaps, [&](const Heap& framework) {
           if (framework.level != Level::framework) return false;
           if (is_recording(header) && framework.observes_completion) return true;
           return std::ranges::any_of(tables.heaps, [&](const Heap& driver) {
             return driver.level == Level::driver && driver.device == framework.device && driver.device >= 0;
           });
         });
}

void CompletedStream::see(const EventColumns& events) {
  ties_.see(events, seen_);
  seen_ += static_cast<std::uint32_t>(events.count());
}

bool CompletedStream::end_first_pass(const Header& header, const Tables& tables, bool lacks_frees) {
  tied_levels_ = std::move(ties_).finish();
  lacks_frees_ = lacks_frees;
  if (!may_be_completed(header, tables, lacks_frees)) return false;
  tables_ = tables;
  if (is_recording(header)) finder_.emplace(tables_);
  seen_ = 0;
  return lacks_frees || tied_levels_.count() > 0 || (finder_ && finder_->possible());
}

void CompletedStream::see_again(const EventColumns& events) {
  for (std::size_t i = 0; i < events.count(); ++i) {
    Event event = events[i];
    if (!tied_levels_.rewrite(event, seen_++, tables_)) continue;
    if (finder_) finder_->see(event, tied_);
    ++tied_;
  }
}

void CompletedStream::end_second_pass() {
  if (finder_) calls_ = std::move(*finder_).find();
  finder_.reset();
}

const EventColumns& CompletedStream::Pass::next(const EventColumns& events) {
  out_.clear();
  std::vector<Event> behind_frees;
  const auto put = [&](const Event& event) {
    if (!frees_) return out_.push_back(event);
    behind_frees.clear();
    frees_->follow(event, behind_frees);
    for (const Event& each : behind_frees) out_.push_back(each);
  };
  const std::vector<TorchCall>& calls = subject_->calls_;
  for (std::size_t i = 0; i < events.count(); ++i) {
    Event event = events[i];
    if (!subject_->tied_levels_.rewrite_again(event, seen_++)) continue;
    for (; call_ < calls.size() && calls[call_].before == tied_; ++call_)
      put({.kind = calls[call_].kind, .origin = calls[call_].origin, .stack = event.stack, .time = event.time});
    put(event);
    ++tied_;
  }
  return out_;
}

namespace {

/// Whether mapped memory belongs to the same expandable segment as the memory before it: a range has addresses for more
/// than the device's memory, so those of two ranges are farther apart than `most`, what was unmapped in one of them.
bool continues(const InitialSegment& previous, const InitialSegment& next, Bytes most) {
  const Address end = previous.address + previous.size;
  return previous.mapped && next.mapped && previous.origin == next.origin && end <= next.address &&
         next.address - end <= most;
}

/// What happened at the same time as `until` may have happened after it: taken for an event of its own, a free is right
/// either way.
bool may_restate(EventKind kind, Nanoseconds time, Nanoseconds until) {
  switch (kind) {
    case EventKind::segment_alloc:
    case EventKind::segment_map:
    case EventKind::alloc:
    case EventKind::settings:
    case EventKind::memory_info:
    case EventKind::mark:
      return time <= until;
    case EventKind::free_requested:
      return time < until;
    default:
      return false;
  }
}

/// Of a segment without blocks: the sizes in which the pools take memory.
bool is_of_small_pool(const InitialSegment& segment, const TorchSettings& settings) {
  return segment.mapped ? segment.size.count % settings.run_size(false).count != 0
                        : segment.size == settings.run_size(true);
}

}  // namespace

bool RestatedHeaps::see(const EventColumns& events) {
  for (std::size_t i = 0; i < events.count(); ++i) {
    if (restates_ && !may_restate(events.kind[i], events.time[i], until_)) end_restating();
    const HeapId heap = tables_[events.origin[i]].heap;
    if (!is_torch(tables_, heap)) continue;
    if (restates_)
      restate(events[i], held_[heap]);
    else if (const auto known = heaps_.find(heap); known != heaps_.end())
      learn(events[i], known->second);
    else if (!unknown_.contains(heap))
      heaps_[heap].initial.heap = heap;  // it held nothing
  }
  return restates_ || std::ranges::any_of(heaps_, [](const auto& entry) {
           const std::vector<InitialSegment>& segments = entry.second.initial.segments;
           return !entry.second.unsure.empty() || std::ranges::any_of(segments, &InitialSegment::mapped);
         });
}

void RestatedHeaps::restate(const Event& event, Held& held) const {
  switch (event.kind) {
    case EventKind::segment_alloc:
    case EventKind::segment_map:
      held.segments[event.address] = {
          .size = event.size, .origin = event.origin, .mapped = event.kind == EventKind::segment_map};
      break;
    case EventKind::alloc:
      held.blocks[event.address] = {.id = event.allocation, .requested = event.size};
      held.by_id[event.allocation] = event.address;
      break;
    case EventKind::free_requested:
      if (const auto known = held.by_id.find(event.allocation); known != held.by_id.end())
        held.blocks[known->second].pending = true;
      break;
    case EventKind::settings:
      for (const auto& [key, value] : tables_[SettingsId{static_cast<std::uint32_t>(event.value)}].entries)
        held.settings[std::string(tables_[key])] = tables_[value];
      break;
    default:
      break;
  }
}

void RestatedHeaps::end_restating() {
  restates_ = false;
  for (const auto& [id, held] : held_) {
    const TorchSettings settings = TorchSettings::recorded(held.settings);
    Heap heap{.initial = {.heap = id, .segments = {}}, .most = 4_GiB, .unsure = {}, .unsure_behind = {}};
    for (const auto& [address, segment] : held.segments) heap.most += segment.size;
    Blocks block = held.blocks.begin();
    bool fits = true;
    for (const auto& [address, segment] : held.segments) {
      InitialSegment row{.address = address,
                         .size = segment.size,
                         .origin = segment.origin,
                         .mapped = segment.mapped,
                         .range = address,
                         .blocks = {}};
      const bool is_used = block != held.blocks.end() && block->first - address < segment.size;
      row.small =
          is_used ? TorchSettings::is_small(settings.round(block->second.requested)) : is_of_small_pool(row, settings);
      std::vector<InitialSegment>& segments = heap.initial.segments;
      if (!segments.empty() && continues(segments.back(), row, heap.most)) {
        row.range = segments.back().range;
        if (!is_used) row.small = segments.back().small;
      }
      segments.push_back(std::move(row));
      fits = fits && divide(heap, settings, block, held.blocks.end());
    }
    if (fits && block == held.blocks.end())
      heaps_.emplace(id, std::move(heap));
    else
      unknown_.insert(id);
  }
  held_.clear();
}

/// Divides the heap's last segment. `block` is the first that is not in an earlier one. False if a block is larger than
/// its place.
bool RestatedHeaps::divide(Heap& heap, const TorchSettings& settings, Blocks& block, Blocks end) const {
  InitialSegment& segment = heap.initial.segments.back();
  const Address segment_end = segment.address + segment.size;
  Address at = segment.address;
  const auto add = [&](Bytes size, InitialUse use) {
    if (size > 0_B) segment.blocks.push_back({.size = size, .use = use});
    at = at + size;
  };
  for (; block != end && block->first < segment_end; ++block) {
    if (block->first < at) return false;
    add(block->first - at, InitialUse::free);
    const Blocks next = std::next(block);
    const Bytes room = (next != end ? std::min(next->first, segment_end) : segment_end) - at;
    const Bytes rounded = settings.round(block->second.requested);
    if (rounded > room) return false;
    const Bytes rest = room - rounded;
    const bool is_split = settings.splits(rest, rounded);
    add(is_split ? rounded : room, block->second.pending ? InitialUse::pending : InitialUse::allocated);
    if (!is_split || settings.least_rest(segment.small) == settings.least_rest(true)) continue;
    heap.unsure[at] = {.size = rest, .segment = heap.initial.segments.size() - 1, .block = segment.blocks.size() - 1};
    heap.unsure_behind[block->second.id] = at;
  }
  add(segment_end - at, InitialUse::free);
  return true;
}

void RestatedHeaps::learn(const Event& event, Heap& heap) {
  std::vector<InitialSegment>& segments = heap.initial.segments;
  if (event.kind == EventKind::alloc) {
    auto place = heap.unsure.upper_bound(event.address);
    if (place == heap.unsure.begin()) return;
    const auto& [begin, free] = *--place;
    const Bytes more = event.address - begin;
    if (more >= free.size) return;
    std::vector<InitialBlock>& blocks = segments[free.segment].blocks;
    if (more <= TorchSettings::max_small) {
      blocks[free.block].size += more;
      blocks[free.block + 1].size -= more;
    }
    heap.unsure.erase(place);
  } else if (event.kind == EventKind::free_completed) {
    if (const auto behind = heap.unsure_behind.find(event.allocation); behind != heap.unsure_behind.end())
      heap.unsure.erase(behind->second);
  } else if (event.kind == EventKind::segment_map) {
    for (InitialSegment& segment : segments)
      if (segment.mapped && segment.origin == event.origin && event.address < segment.range &&
          segment.range - event.address <= heap.most)
        segment.range = event.address;
  }
}

std::vector<InitialHeap> RestatedHeaps::heaps() && {
  if (restates_) end_restating();
  std::vector<InitialHeap> heaps;
  heaps.reserve(heaps_.size());
  for (auto& [id, heap] : heaps_) heaps.push_back(std::move(heap.initial));
  return heaps;
}

std::vector<InitialHeap> restated_heaps(const Trace& trace) {
  if (trace.folded.empty() || trace.losses.folded_left_out > 0 || !trace.read.intact()) return {};
  RestatedHeaps restated(trace.tables, trace.folded.until);
  trace.events.for_each_block([&](const EventColumns& block, std::uint32_t) { restated.see(block); });
  return std::move(restated).heaps();
}

}  // namespace memreel
