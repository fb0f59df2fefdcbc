// SPDX-License-Identifier: Apache-2.0
#include "viewer/model/allocation_list.h"

#include <algorithm>

#include "viewer/model/heap_at.h"

namespace memreel::viewer {
namespace {

constexpr std::uint32_t piece = 1U << 16U;  // rows between checks for cancellation

/// Sorts in pieces and merges them, so that it can be cancelled in between. Returns false when cancelled.
template <class Less>
bool sort_rows(std::vector<std::uint32_t>& rows, const Less& less, const Progress& progress) {
  const std::size_t count = rows.size();
  for (std::size_t begin = 0; begin < count; begin += piece) {
    if (progress.cancelled()) return false;
    std::stable_sort(rows.begin() + static_cast<std::ptrdiff_t>(begin),
                     rows.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(begin + piece, count)), less);
    progress.set(0.3 + 0.4 * static_cast<double>(begin) / static_cast<double>(count));
  }
  std::vector<std::uint32_t> merged(count);
  for (std::size_t width = piece; width < count; width *= 2) {
    for (std::size_t begin = 0; begin < count; begin += 2 * width) {
      if (progress.cancelled()) return false;
      const auto at = [&](std::size_t i) { return rows.begin() + static_cast<std::ptrdiff_t>(std::min(i, count)); };
      std::merge(at(begin), at(begin + width), at(begin + width), at(begin + 2 * width),
                 merged.begin() + static_cast<std::ptrdiff_t>(begin), less);
    }
    rows.swap(merged);
  }
  return true;
}

}  // namespace

std::optional<std::uint32_t> AllocationList::row_of(std::uint32_t allocation) const {
  if (rows_.empty()) {
    if (allocation >= count_) return std::nullopt;
    return descending_ ? count_ - 1 - allocation : allocation;
  }
  const auto found = std::ranges::find(rows_, allocation);
  if (found == rows_.end()) return std::nullopt;
  return static_cast<std::uint32_t>(found - rows_.begin());
}

std::optional<AllocationList> list_allocations(const Document& document, const AllocationQuery& query,
                                               const Progress& progress, const Classification* classification) {
  static const Classification nothing_known;
  const Classification& known = classification == nullptr ? nothing_known : *classification;
  const bool all =
      !query.sieve && query.first_event == 0 && query.end_event >= document.event_count() && document.heaps.size() <= 1;
  if (all && query.order == AllocationOrder::begin)
    return AllocationList(document.allocation_count(), query.descending);

  std::vector<std::uint32_t> rows;
  const auto see = [&](std::uint32_t id) {
    if (document.heap_of(document.origin_of(id)) != query.heap) return;
    if (!query.sieve || query.sieve->passes(id)) rows.push_back(id);
  };
  for (const std::uint32_t id : held_at(document, query.heap, query.first_event)) see(id);
  const std::uint32_t begin = document.allocations_before(query.first_event);
  const std::uint32_t end = document.allocations_before(query.end_event);
  for (std::uint32_t id = begin; id < end; ++id) {
    if (id % piece == 0) {
      if (progress.cancelled()) return std::nullopt;
      progress.set(0.3 * (id - begin) / (end - begin));
    }
    see(id);
  }

  const auto by = [&](const auto& key) {
    if (query.descending)
      return sort_rows(
          rows, [&](std::uint32_t a, std::uint32_t b) { return key(a) > key(b); }, progress);
    return sort_rows(
        rows, [&](std::uint32_t a, std::uint32_t b) { return key(a) < key(b); }, progress);
  };
  bool done = true;
  switch (query.order) {
    case AllocationOrder::begin:
      if (query.descending) std::ranges::reverse(rows);
      break;
    case AllocationOrder::size:
      done = by([&](std::uint32_t id) { return document.size_of(id); });
      break;
    case AllocationOrder::lifetime: {
      // Looked up once for each row, because every comparison would search for both begins.
      std::vector<std::uint64_t> lifetimes(end);
      const std::int64_t last = document.last_time().count();
      for (const std::uint32_t id : rows) {
        if (progress.cancelled()) return std::nullopt;
        const std::uint32_t requested = document.requested(id);
        const std::int64_t until = requested == never ? last + 1 : document.time(requested).count();
        lifetimes[id] =
            static_cast<std::uint64_t>(std::max<std::int64_t>(0, until - document.time(document.begin_of(id)).count()));
      }
      done = by([&](std::uint32_t id) { return lifetimes[id]; });
      break;
    }
    case AllocationOrder::address:
      done = by([&](std::uint32_t id) { return document.columns.address[id]; });
      break;
    case AllocationOrder::stack:
      done = by([&](std::uint32_t id) { return document.columns.stack[id]; });
      break;
    case AllocationOrder::category:
      done = by([&](std::uint32_t id) { return known.category(id); });
      break;
    case AllocationOrder::phase:
      done = by([&](std::uint32_t id) { return known.phase(id); });
      break;
  }
  if (!done) return std::nullopt;
  return AllocationList(std::move(rows));
}

}  // namespace memreel::viewer
