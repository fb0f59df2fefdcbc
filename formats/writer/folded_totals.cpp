#include "formats/writer/folded_totals.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

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

}  // namespace memreel
