// SPDX-License-Identifier: Apache-2.0
#include "viewer/model/allocation_list.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "viewer/model/heap_at.h"

namespace memreel::viewer {
namespace {

constexpr std::uint32_t piece = 1U << 16U;  // rows between checks for cancellation

/// Sorts stably by `key`, which is unpacked once for each row: a byte at a time from the lowest, without those that are
/// equal in all rows. Returns false when cancelled.
template <class Key>
bool sort_rows(std::vector<std::uint32_t>& rows, const Key& key, bool descending, const Progress& progress) {
  std::vector<std::uint64_t> keys(rows.size());
  std::uint64_t differing = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (i % piece == 0 && progress.cancelled()) return false;
    const auto ascending = static_cast<std::uint64_t>(key(rows[i]));
    keys[i] = descending ? ~ascending : ascending;
    differing |= keys[i] ^ keys.front();
  }
  std::vector<std::uint32_t> order(rows.size()), sorted(rows.size());
  std::iota(order.begin(), order.end(), 0U);
  for (unsigned shift = 0; shift < 64; shift += 8) {
    if (progress.cancelled()) return false;
    progress.set(0.3 + 0.7 * shift / 64);
    if ((differing >> shift & 0xFFU) == 0) continue;
    const auto digit = [&keys, shift](std::uint32_t i) { return static_cast<std::size_t>(keys[i] >> shift & 0xFFU); };
    std::array<std::size_t, 257> begins{};
    for (const std::uint32_t i : order) ++begins[digit(i) + 1];
    std::partial_sum(begins.begin(), begins.end(), begins.begin());
    for (const std::uint32_t i : order) sorted[begins[digit(i)]++] = i;
    order.swap(sorted);
  }
  std::ranges::transform(order, sorted.begin(), [&](std::uint32_t i) { return rows[i]; });
  rows.swap(sorted);
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

  const auto by = [&](const auto& key) { return sort_rows(rows, key, query.descending, progress); };
  bool done = true;
  switch (query.order) {
    case AllocationOrder::begin:
      if (query.descending) std::ranges::reverse(rows);
      break;
    case AllocationOrder::size:
      done = by([&](std::uint32_t id) { return document.size_of(id).count; });
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
      done = by([&](std::uint32_t id) { return document.address_of(id).value; });
      break;
    case AllocationOrder::stack:
      done = by([&](std::uint32_t id) { return index(document.stack_of(id)); });
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
