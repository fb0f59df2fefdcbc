// SPDX-License-Identifier: Apache-2.0
#include "formats/writer/flight_writer.h"

#include <algorithm>
#include <system_error>

namespace memreel {
namespace {

// Shares of the space. A live allocation takes some 16 bytes, a sum up to 16; the largest block some 32 bytes per
// event.
constexpr std::uint64_t space_per_restated = 128;  // an eighth
constexpr std::uint64_t space_per_sum = 128;       // an eighth
constexpr std::uint64_t space_per_event_of_block = 1024;
constexpr std::uint64_t most_sums = std::uint64_t{1} << 20U;

constexpr std::chrono::seconds patience{1};  // with a full disk

WriterOptions options_of(Bytes size) {
  return {.events_per_block =
              static_cast<std::uint32_t>(std::clamp<std::uint64_t>(size.count / space_per_event_of_block, 256, 65536)),
          .events_per_keyframe = 0};
}

}  // namespace

FlightWriter::FlightWriter(std::unique_ptr<LiveFile> file, std::filesystem::path path, unsigned mode, Header header,
                           const FlightLimits& limits)
    : path_(std::move(path)),
      next_path_(path_.string() + ".next"),
      mode_(mode),
      header_(std::move(header)),
      limits_(limits),
      options_(options_of(limits.size)),
      most_restated_(limits.size.count / space_per_restated),
      budget_(limits.size),
      totals_(static_cast<std::size_t>(std::min(limits.size.count / space_per_sum, most_sums))),
      current_(std::make_unique<FlightGeneration>(tables(), std::move(file), budget_, header_, options_)) {}

FlightWriter::~FlightWriter() { drop_next(); }

void FlightWriter::drop_next() {
  if (next_ == nullptr) return;
  next_.reset();
  std::error_code ignored;
  std::filesystem::remove(next_path_, ignored);
}

Bytes& FlightWriter::live_of(HeapId heap) {
  if (index(heap) >= live_.size()) live_.resize(index(heap) + std::size_t{1});
  return live_[index(heap)];
}

void FlightWriter::add_initial_heap(InitialHeap initial) {
  if (next_ != nullptr) next_->add_initial_heap(initial);
  current_->add_initial_heap(std::move(initial));
}

HeapState FlightWriter::state_of(HeapId heap) const {
  return {.heap = heap,
          .live = index(heap) < live_.size() ? live_[index(heap)] : Bytes{},
          .reserved = current_->reserved(heap)};
}

AllocationId FlightWriter::append(const Event& event) {
  if (event.kind == EventKind::unknown || !status_) return AllocationId::none;
  if (events_ == 0) current_->base.until = event.time;
  ++events_;
  latest_ = event.time;
  AllocationId allocation = AllocationId::none;
  if (event.kind == EventKind::alloc)
    allocation = append_alloc(event);
  else if (is_free(event.kind))
    allocation = append_free(event);
  else
    append_other(event);
  if (++unchecked_ == options_.events_per_block) rotate_when_due();
  return allocation;
}

AllocationId FlightWriter::append_alloc(const Event& event) {
  const HeapId heap = heap_of(event.origin);
  if (const std::uint32_t other = by_place_.find({event.address, heap}); other != absent) end(other);
  auto slot = static_cast<std::uint32_t>(kept_.size());
  if (empty_.empty()) {
    kept_.emplace_back();
  } else {
    slot = empty_.back();
    empty_.pop_back();
  }
  Kept& kept = kept_[slot];
  kept = {.used = true,
          .origin = event.origin,
          .stack = event.stack,
          .address = event.address,
          .size = event.size,
          .born = event.time};
  kept.current = current_->append(event);
  if (next_ != nullptr) kept.next = next_->append(event);
  by_place_.put({event.address, heap}, slot);
  live_of(heap) += event.size;
  totals_.allocated(event.time, heap, event.stack, event.size);
  return AllocationId{slot};
}

std::uint32_t FlightWriter::freed_by(const Event& event) const {
  if (event.allocation == AllocationId::none) return by_place_.find({event.address, heap_of(event.origin)});
  const std::uint32_t slot = index(event.allocation);
  // Another allocation may have taken its place since, if its free was not seen.
  const bool is_it = slot < kept_.size() && kept_[slot].used && kept_[slot].address == event.address;
  return is_it ? slot : absent;
}

AllocationId FlightWriter::append_free(const Event& event) {
  const std::uint32_t slot = freed_by(event);
  Event free = event;
  free.allocation = slot == absent ? AllocationId::none : kept_[slot].current;
  current_->append(free);
  if (next_ != nullptr) {
    free.allocation = slot == absent ? AllocationId::none : kept_[slot].next;
    next_->append(free);
  }
  if (slot == absent) return AllocationId::none;
  Kept& kept = kept_[slot];
  const HeapId heap = heap_of(kept.origin);
  if (!kept.pending) {
    kept.pending = true;
    kept.freed = event.time;
    live_of(heap) -= kept.size;
    totals_.freed(event.time, heap, kept.stack, kept.size);
  }
  if (event.kind == EventKind::free_completed || !tables()[heap].observes_completion) end(slot);
  return AllocationId{slot};
}

void FlightWriter::append_other(const Event& event) {
  const HeapId heap = heap_of(event.origin);
  if (event.kind == EventKind::segment_alloc || event.kind == EventKind::segment_map)
    segment_times_[{heap, event.address}] = event.time;
  if (event.kind == EventKind::settings || event.kind == EventKind::memory_info)
    last_words_[{event.kind, event.origin}] = event;
  if (event.kind == EventKind::mark) ranges_.see(event, tables());
  current_->append(event);
  if (next_ != nullptr) next_->append(event);
}

void FlightWriter::end(std::uint32_t slot) {
  Kept& kept = kept_[slot];
  const HeapId heap = heap_of(kept.origin);
  if (!kept.pending) live_of(heap) -= kept.size;
  by_place_.erase({kept.address, heap});
  kept = {};
  empty_.push_back(slot);
}

void FlightWriter::set_losses(const Losses& losses) {
  losses_ = losses;
  tell_losses(*current_);
  if (next_ != nullptr) tell_losses(*next_);
}

void FlightWriter::tell_losses(FlightGeneration& generation) {
  Losses losses = losses_;
  losses.folded_events = generation.base.folded;
  if (losses.folded_events != 0) losses.folded_until = generation.base.until;
  losses.folded_left_out = generation.base.left_out;
  generation.writer().set_losses(losses);
}

void FlightWriter::rotate_when_due() {
  unchecked_ = 0;
  if (!status_) return;
  const auto is_old = [&](const FlightGeneration& generation) {
    return limits_.span && latest_ - generation.base.until >= *limits_.span;
  };
  const std::uint64_t size = limits_.size.count;
  if (next_ == nullptr) {
    const std::uint64_t base = current_->base.size;
    const std::uint64_t half = (size - 2 * std::min(base, size / 4)) / 3;
    if (!current_->overflowed() && current_->size() < base + half && !is_old(*current_)) return;
    begin_next();
    if (!status_ || next_ == nullptr) return;
  }
  if (next_->overflow() == Overflow::disk) return give_up_next();
  if (next_->overflowed()) {  // by a few very long names
    drop_next();
    begin_next();
    if (status_ && next_ != nullptr) take_over();
    return;
  }
  if (awaits_space() && !is_established()) return;
  const std::uint64_t margin = size / 8;  // for a block of each trace, and the first one's footer
  if (current_->overflowed() || budget_.used().count + margin >= size || is_old(*next_)) take_over();
}

/// Whether a second trace has a block of events of its own, or some after a while. Until then others may take the space
/// that it needs for them, and the first trace has more to say.
bool FlightWriter::is_established() const {
  return next_->size() > next_->base.size ||
         (events_ > events_before_next_ && std::chrono::steady_clock::now() - next_began_ >= patience);
}

void FlightWriter::give_up_next() {
  found_full_ = std::chrono::steady_clock::now();
  drop_next();
}

void FlightWriter::begin_next() {
  if (!may_begin_next()) return;
  std::error_code ignored;
  std::filesystem::remove(next_path_, ignored);  // left by a process that was killed
  auto file = live_file_sink(next_path_, mode_);
  if (!file) {
    if (!awaits_space()) status_ = file.error();
    return;
  }
  next_ = std::make_unique<FlightGeneration>(tables(), *std::move(file), budget_, header_, options_);
  restate(*next_);
  tell_losses(*next_);
  status_ = next_->writer().flush();
  next_->base.size = next_->size();
  if (next_->overflow() == Overflow::disk) return give_up_next();
  found_full_.reset();
  next_began_ = std::chrono::steady_clock::now();
  events_before_next_ = events_;
  if (next_->overflowed() && status_)
    status_ = Error{.what = "live allocations alone take more space than the recording may",
                    .where = path_.string(),
                    .remedy = "allow more with --flight"};
}

/// Restating what is live takes time, and is of no use while the disk is full. What is free says nothing of quotas.
bool FlightWriter::may_begin_next() const {
  if (found_full_ && std::chrono::steady_clock::now() - *found_full_ < patience) return false;
  if (!awaits_space()) return true;
  std::error_code unknown;
  const auto there = std::filesystem::space(path_.has_parent_path() ? path_.parent_path() : ".", unknown);
  return unknown || there.available > current_->base.size + limits_.size.count / space_per_event_of_block;
}

/// Writes live allocations and open ranges, in the order they came about.
void FlightWriter::restate(FlightGeneration& generation) {
  std::vector<std::uint32_t> slots;
  for (std::uint32_t slot = 0; slot < kept_.size(); ++slot)
    if (kept_[slot].used) slots.push_back(slot);
  if (slots.size() > most_restated_) {
    generation.base.left_out = slots.size() - most_restated_;
    std::ranges::nth_element(slots, slots.begin() + static_cast<std::ptrdiff_t>(most_restated_), std::ranges::greater{},
                             [&](std::uint32_t slot) { return kept_[slot].size; });
    slots.resize(most_restated_);
  }
  for (Kept& kept : kept_) kept.next = AllocationId::none;

  std::vector<Event> events;
  restate_segments(events);
  for (const auto& [key, event] : last_words_) events.push_back(event);
  ranges_.append_to(events);
  for (const std::uint32_t slot : slots) {
    const Kept& kept = kept_[slot];
    // The slot stands in for the allocation until it has its own ID.
    events.push_back({.kind = EventKind::alloc,
                      .origin = kept.origin,
                      .stack = kept.stack,
                      .allocation = AllocationId{slot},
                      .time = kept.born,
                      .address = kept.address,
                      .size = kept.size});
    if (kept.pending)
      events.push_back({.kind = EventKind::free_requested,
                        .origin = kept.origin,
                        .allocation = AllocationId{slot},
                        .time = kept.freed});
  }
  std::ranges::stable_sort(events, {}, &Event::time);
  generation.base.until = latest_;
  generation.base.folded = events_ - std::min<std::uint64_t>(events_, events.size());
  generation.set_folded(totals_.history(latest_));
  for (Event& event : events) {
    if (event.kind == EventKind::alloc) {
      const std::uint32_t slot = index(event.allocation);
      kept_[slot].next = generation.append(event);
    } else {
      if (event.kind == EventKind::free_requested) event.allocation = kept_[index(event.allocation)].next;
      generation.append(event);
    }
  }
}

void FlightWriter::restate_segments(std::vector<Event>& events) {
  std::map<SegmentPlace, Nanoseconds> held;
  for (const LiveSegment& segment : current_->segments()) {
    const HeapId heap = heap_of(segment.origin);
    const auto known = segment_times_.find({heap, segment.address});
    for (auto piece = segment_times_.lower_bound({heap, segment.address});
         piece != segment_times_.end() && piece->first.first == heap &&
         piece->first.second.value - segment.address.value < segment.size.count;
         ++piece)
      held.insert(*piece);
    // A segment mapped piecewise is as old as its first piece.
    events.push_back({.kind = segment.mapped ? EventKind::segment_map : EventKind::segment_alloc,
                      .origin = segment.origin,
                      .time = known != segment_times_.end() ? known->second : current_->base.until,
                      .address = segment.address,
                      .size = segment.size});
  }
  segment_times_ = std::move(held);
}

/// The second trace replaces the first. Readers that have the old one open may continue reading it.
void FlightWriter::take_over() {
  status_ = next_->writer().flush();
  if (next_->overflow() == Overflow::disk) return give_up_next();
  if (status_) status_ = next_->file().rename(path_);
  if (!status_) return;
  current_ = std::move(next_);
  ++rotations_;
  for (Kept& kept : kept_) kept.current = std::exchange(kept.next, AllocationId::none);
  std::map<SegmentPlace, Nanoseconds> still_there;
  for (const LiveSegment& segment : current_->segments()) {
    const SegmentPlace place{heap_of(segment.origin), segment.address};
    if (const auto known = segment_times_.find(place); known != segment_times_.end()) still_there.insert(*known);
  }
  segment_times_ = std::move(still_there);
}

Result<void> FlightWriter::flush() {
  if (!status_) return status_;
  if (auto flushed = current_->writer().flush(); !flushed) return flushed;
  rotate_when_due();
  return status_;
}

Result<void> FlightWriter::finish() {
  if (awaits_space()) {  // the last try
    found_full_.reset();
    if (next_ == nullptr) begin_next();
    if (status_ && next_ != nullptr) take_over();
  }
  drop_next();
  auto finished = current_->writer().finish();
  if (status_ && finished && awaits_space())
    return Error{.what = "can't write: the disk is full",
                 .where = path_.string(),
                 .remedy = "free some space, or write to another disk"};
  return status_ ? finished : status_;
}

}  // namespace memreel
