// SPDX-License-Identifier: Apache-2.0
#include "formats/writer/flight_generation.h"

#include <algorithm>
#include <array>
#include <tuple>

namespace memreel {
namespace {

using std::chrono::hours, std::chrono::minutes, std::chrono::seconds;

constexpr std::array<Nanoseconds, 7> widths{seconds(1), seconds(10), minutes(1), minutes(10),
                                            hours(1),   hours(6),    hours(24)};

/// A multiple of `width`.
Nanoseconds next_width(Nanoseconds width) {
  const auto* const next = std::ranges::upper_bound(widths, width);
  return next != widths.end() ? *next : 4 * width;
}

auto place_of(const FoldedRow& row) { return std::tuple(row.interval, index(row.heap), index(row.stack)); }

void add(FoldedRow& to, const FoldedRow& row) {
  to.allocations += row.allocations;
  to.frees += row.frees;
  to.allocated += row.allocated;
  to.freed += row.freed;
}

/// Sorts the rows and merges those of the same place.
void sum_up(std::vector<FoldedRow>& rows) {
  std::ranges::sort(rows, {}, place_of);
  std::size_t kept = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (kept > 0 && place_of(rows[kept - 1]) == place_of(rows[i]))
      add(rows[kept - 1], rows[i]);
    else
      rows[kept++] = rows[i];
  }
  rows.resize(kept);
}

}  // namespace

void FoldedTotals::allocated(Nanoseconds time, HeapId heap, StackId stack, Bytes size) {
  FoldedRow& sum = row(time, {heap, stack});
  ++sum.allocations;
  sum.allocated += size;
}

void FoldedTotals::freed(Nanoseconds time, HeapId heap, StackId stack, Bytes size) {
  FoldedRow& sum = row(time, {heap, stack});
  ++sum.frees;
  sum.freed += size;
}

FoldedRow& FoldedTotals::row(Nanoseconds time, Site site) {
  if (!began_) begin_ = time;
  began_ = true;
  if (time - begin_ >= (latest_ + 1) * width_) {
    close_interval();
    if (time - begin_ >= max_folded_intervals * width_) {
      do widen();
      while (time - begin_ >= most_intervals * width_);
    }
    latest_ = static_cast<std::uint32_t>((time - begin_) / width_);
    shrink();
  }
  std::uint32_t at = in_open_.find(site);
  if (at != absent) return open_[at];
  if (open_.size() >= most_rows_ / 2 && site.stack != StackId::none) return row(time, {site.heap, StackId::none});
  at = static_cast<std::uint32_t>(open_.size());
  open_.push_back({.interval = latest_, .heap = site.heap, .stack = site.stack});
  in_open_.put(site, at);
  return open_.back();
}

void FoldedTotals::close_interval() {
  for (FoldedRow& row : open_) row.interval = latest_;
  std::ranges::sort(open_, {}, place_of);
  closed_.insert(closed_.end(), open_.begin(), open_.end());
  open_.clear();
  in_open_ = {};
}

/// Requires that no interval is open.
void FoldedTotals::shrink() {
  while (latest_ >= most_intervals) widen();
  while (closed_.size() > most_rows_ / 2 && latest_ > 0) widen();
  if (closed_.size() > most_rows_ / 2) forget_smallest_stacks();
}

void FoldedTotals::widen() {
  const Nanoseconds wider = next_width(width_);
  const auto ratio = static_cast<std::uint32_t>(wider / width_);
  for (FoldedRow& row : closed_) row.interval /= ratio;
  latest_ /= ratio;
  width_ = wider;
  sum_up(closed_);
}

void FoldedTotals::forget_smallest_stacks() {
  std::ranges::sort(closed_, std::ranges::greater{},
                    [](const FoldedRow& row) { return std::pair(row.allocated + row.freed, row.allocations); });
  for (std::size_t i = most_rows_ / 4; i < closed_.size(); ++i) closed_[i].stack = StackId::none;
  sum_up(closed_);
}

FoldedHistory FoldedTotals::history(Nanoseconds until) {
  FoldedHistory history{.begin = begin_, .until = until, .interval = width_, .rows = closed_};
  const std::size_t open = history.rows.size();
  history.rows.insert(history.rows.end(), open_.begin(), open_.end());
  for (std::size_t i = open; i < history.rows.size(); ++i) history.rows[i].interval = latest_;
  sum_up(history.rows);
  return history;
}

void OpenRanges::see(const Event& mark, const Tables& tables) {
  const Mark& what = tables[MarkId{static_cast<std::uint32_t>(mark.value)}];
  if (what.phase == MarkPhase::instant) return;
  const std::size_t thread = index(tables[mark.origin].thread);
  if (thread >= by_thread_.size()) by_thread_.resize(thread + 1);
  std::vector<Range>& open = by_thread_[thread];
  if (what.phase == MarkPhase::end) {
    const auto begun = std::find_if(open.rbegin(), open.rend(), [&](const Range& it) { return it.name == what.name; });
    if (begun == open.rend()) return;
    open.erase(std::next(begun).base());
    --count_;
    return;
  }
  if (open.size() == deepest) {  // some never end
    open.erase(open.begin());
    --count_;
  }
  if (count_ == most) return;
  open.push_back({.name = what.name, .begin = mark});
  ++count_;
}

void OpenRanges::append_to(std::vector<Event>& events) const {
  for (const std::vector<Range>& open : by_thread_)
    for (const Range& range : open) events.push_back(range.begin);
}

namespace {

/// Passes on what fits in the budget. From the first packet that does not fit, nothing is passed on.
class BudgetSink final : public ByteSink {
 public:
  BudgetSink(std::unique_ptr<LiveFile> file, DiskBudget& budget, Overflow& overflow)
      : file_(std::move(file)), budget_(budget), overflow_(overflow) {}

  Result<void> write(std::span<const std::byte> bytes) override {
    if (overflow_ == Overflow::none && !budget_.take(bytes.size())) overflow_ = Overflow::budget;
    if (overflow_ != Overflow::none) return {};
    auto written = file_->write(bytes);
    if (written) return written;
    budget_.give_back(bytes.size());
    if (!file_->lacks_space()) return written;
    overflow_ = Overflow::disk;
    return {};
  }
  Result<void> close() override { return file_->close(); }

 private:
  std::unique_ptr<LiveFile> file_;
  DiskBudget& budget_;
  Overflow& overflow_;
};

std::unique_ptr<ByteSink> within(DiskBudget& budget, std::unique_ptr<LiveFile> file, Overflow& overflow) {
  return std::make_unique<BudgetSink>(std::move(file), budget, overflow);
}

}  // namespace

FlightGeneration::FlightGeneration(const Tables& all, std::unique_ptr<LiveFile> file, DiskBudget& budget,
                                   const Header& header, const WriterOptions& options)
    : all_(all),
      budget_(budget),
      file_(file.get()),
      writer_(within(budget, std::move(file), overflow_), header, options) {}

FlightGeneration::~FlightGeneration() { budget_.give_back(file_->size()); }

AllocationId FlightGeneration::append(Event event) {
  event.origin = here(event.origin);
  event.stack = here(event.stack);
  switch (event.kind) {
    case EventKind::mark:
      event.value = index(here(MarkId{static_cast<std::uint32_t>(event.value)}));
      break;
    case EventKind::settings:
      event.value = index(here(SettingsId{static_cast<std::uint32_t>(event.value)}));
      break;
    case EventKind::sync:
      if (event.value >= sync_edge)
        event.value = sync_edge + index(here(StreamId{static_cast<std::uint32_t>(event.value - sync_edge)}));
      break;
    default:
      break;
  }
  return writer_.append(event);
}

void FlightGeneration::add_initial_heap(InitialHeap initial) {
  initial.heap = here(initial.heap);
  for (InitialSegment& segment : initial.segments) segment.origin = here(segment.origin);
  writer_.add_initial_heap(std::move(initial));
}

void FlightGeneration::set_folded(FoldedHistory folded) {
  for (FoldedRow& row : folded.rows) {
    row.heap = here(row.heap);
    row.stack = here(row.stack);
  }
  writer_.set_folded(std::move(folded));
}

std::vector<LiveSegment> FlightGeneration::segments() const {
  std::vector<LiveSegment> segments = writer_.snapshot().segments;
  for (LiveSegment& segment : segments)
    if (segment.origin != OriginId::none) segment.origin = origins_of_all_[index(segment.origin)];
  return segments;
}

StringId FlightGeneration::here(StringId id) {
  StringId& known = strings_[id];
  if (known == StringId::none && id != StringId::none) known = writer_.intern(all_[id]);
  return known;
}

ModuleId FlightGeneration::here(ModuleId id) {
  if (id == ModuleId::none) return id;
  ModuleId& known = modules_[id];
  if (known == ModuleId::none) {
    Module row = all_[id];
    row.path = here(row.path);
    known = writer_.intern(row);
  }
  return known;
}

FrameId FlightGeneration::here(FrameId id) {
  if (id == FrameId::none) return id;
  FrameId& known = frames_[id];
  if (known == FrameId::none) {
    Frame row = all_[id];
    row.function = here(row.function);
    row.file = here(row.file);
    row.module = here(row.module);
    row.instance = here(row.instance);
    known = writer_.intern(row);
  }
  return known;
}

/// Callers first; iterative, since stacks are deep.
StackId FlightGeneration::here(StackId id) {
  StackId caller = StackId::none;
  for (; id != StackId::none; id = all_[id].caller) {
    caller = stacks_[id];
    if (caller != StackId::none) break;
    callees_.push_back(id);
  }
  for (; !callees_.empty(); callees_.pop_back()) {
    caller = writer_.intern(Stack{.frame = here(all_[callees_.back()].frame), .caller = caller});
    stacks_[callees_.back()] = caller;
  }
  return caller;
}

HeapId FlightGeneration::here(HeapId id) {
  if (id == HeapId::none) return id;
  if (heaps_[id] == HeapId::none) {
    Heap row = all_[id];
    row.name = here(row.name);
    row.parent = here(row.parent);
    heaps_[id] = writer_.intern(row);
  }
  return heaps_[id];
}

PoolId FlightGeneration::here(PoolId id) {
  if (id == PoolId::default_pool) return id;
  PoolId& known = pools_[id];
  if (known == PoolId::default_pool) {
    Pool row = all_[id];
    row.name = here(row.name);
    known = writer_.intern(row);
  }
  return known;
}

StreamId FlightGeneration::here(StreamId id) {
  StreamId& known = streams_[id];
  if (known == StreamId::default_stream && id != StreamId::default_stream) known = writer_.intern(all_[id]);
  return known;
}

ThreadId FlightGeneration::here(ThreadId id) {
  if (id == ThreadId::unknown) return id;
  ThreadId& known = threads_[id];
  if (known == ThreadId::unknown) {
    Thread row = all_[id];
    row.name = here(row.name);
    known = writer_.intern(row);
  }
  return known;
}

OriginId FlightGeneration::here(OriginId id) {
  if (id == OriginId::none) return id;
  OriginId& known = origins_[id];
  if (known == OriginId::none) {
    Origin row = all_[id];
    row.heap = here(row.heap);
    row.pool = here(row.pool);
    row.stream = here(row.stream);
    row.thread = here(row.thread);
    row.metadata = here(row.metadata);
    known = writer_.intern(row);
    if (index(known) >= origins_of_all_.size()) origins_of_all_.resize(index(known) + std::size_t{1});
    origins_of_all_[index(known)] = id;
  }
  return known;
}

MarkId FlightGeneration::here(MarkId id) {
  if (id == MarkId::none) return id;
  MarkId& known = marks_[id];
  if (known == MarkId::none) {
    Mark row = all_[id];
    row.name = here(row.name);
    known = writer_.intern(row);
  }
  return known;
}

SettingsId FlightGeneration::here(SettingsId id) {
  if (id == SettingsId::none) return id;
  SettingsId& known = settings_[id];
  if (known == SettingsId::none) {
    Settings row = all_[id];
    for (auto& [key, value] : row.entries) {
      key = here(key);
      value = here(value);
    }
    known = writer_.intern(row);
  }
  return known;
}

}  // namespace memreel
