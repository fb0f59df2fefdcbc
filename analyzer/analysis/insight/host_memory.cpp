// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/insight/host_memory.h"

#include <algorithm>
#include <array>

#include "analyzer/analysis/insight/heap_map.h"

namespace memreel {
namespace {

/// The pool of the recorder's samples of the process.
constexpr std::string_view resident_pool = "resident";

struct Sample {
  std::uint32_t event = 0;
  Bytes resident;
};

std::vector<Sample> samples_of(const Trace& trace) {
  std::vector<Sample> samples;
  const Events& events = trace.events;
  for (std::uint32_t i = 0; i < events.count(); ++i) {
    if (events.kind(i) != EventKind::memory_info) continue;
    const Origin& origin = trace.tables[events.origin(i)];
    if (trace.tables[origin.heap].device >= 0 || samples_whole_heap(trace.tables, origin)) continue;
    if (trace.tables[trace.tables[origin.pool].name] == resident_pool)
      samples.push_back({.event = i, .resident = events.size(i)});
  }
  return samples;
}

/// What was resident at the end of each round: only changes are sampled.
std::vector<Bytes> at_ends(std::span<const Sample> samples, const Rounds& rounds) {
  std::vector<Bytes> resident;
  std::size_t next = 0;
  for (const std::uint32_t end : rounds.ends) {
    while (next < samples.size() && samples[next].event <= end) ++next;
    if (next > 0) resident.push_back(samples[next - 1].resident);
  }
  return resident;
}

void find_growth(std::span<const Sample> samples, const Rounds& rounds, ResidentSet& set) {
  constexpr std::size_t parts = 4, fewest = 4 * parts;
  constexpr Bytes least = 16_MiB;
  const std::vector<Bytes> all = at_ends(samples, rounds);
  if (all.size() < fewest) return;
  const std::size_t width = all.size() / 2 / parts;
  const std::span warm = std::span(all).last(width * parts);
  std::array<Bytes, parts> lowest;
  for (std::size_t i = 0; i < parts; ++i) lowest[i] = std::ranges::min(warm.subspan(i * width, width));
  const auto no_growth = [](Bytes before, Bytes after) { return after <= before; };
  if (std::ranges::adjacent_find(lowest, no_growth) != lowest.end() || lowest.back() < lowest.front() + least) return;
  set.grown = lowest.back() - lowest.front();
  set.growth_bytes_per_step = static_cast<double>(set.grown.count) / static_cast<double>(width * (parts - 1));
  set.until_step = static_cast<std::uint32_t>(rounds.ends.size());
  set.from_step = set.until_step - static_cast<std::uint32_t>(warm.size()) + 1;
}

/// Adds what the host's heaps of a level hold; whether there are any.
bool add_pinned(const Trace& trace, std::span<const HeapHistory> heaps, Level level, HostMemory& memory) {
  bool found = false;
  for (const HeapHistory& heap : heaps) {
    const Heap& of = trace.tables[heap.heap];
    // Reserved addresses are no allocations, and take no memory.
    if (of.device >= 0 || of.level != level || heap.allocations == 0 || is_pageable_heap(trace.tables, heap.heap))
      continue;
    found = true;
    memory.pinned_peak += std::max(heap.peak_reserved, heap.peak_live);
    memory.pinned_end += std::max(heap.end_reserved, heap.end_live);
  }
  return found;
}

}  // namespace

std::optional<HostMemory> host_memory(const Trace& trace, std::span<const HeapHistory> heaps,
                                      const std::function<Rounds()>& rounds) {
  HostMemory memory;
  const bool has_pinned =
      add_pinned(trace, heaps, Level::driver, memory) || add_pinned(trace, heaps, Level::framework, memory);
  const std::vector<Sample> samples = samples_of(trace);
  if (samples.empty()) return has_pinned ? std::optional(memory) : std::nullopt;
  const auto most = std::ranges::max_element(samples, {}, &Sample::resident);
  memory.resident = {.first = samples.front().resident, .peak = most->resident, .last = samples.back().resident};
  find_growth(samples, rounds(), *memory.resident);
  return memory;
}

}  // namespace memreel
