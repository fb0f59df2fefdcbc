#include "formats/import/torch/preexisting.h"

#include <algorithm>
#include <unordered_map>

#include "formats/import/torch/ranges.h"
#include "formats/model/flat_map.h"

namespace memreel::torch {
namespace {

struct AddressHash {
  std::uint64_t operator()(std::uint64_t address) const { return mix_bits(address); }
};

/// A free of memory that the history did not allocate.
struct UnknownFree {
  std::size_t entry = 0;
  bool pending = false;  // a completion whose free request is also unknown
};

class Allocations {
 public:
  void apply(const Entry& entry, std::size_t i) {
    const std::uint64_t address = entry.address;
    switch (entry.action()) {
      case Action::alloc:
        states_.put(address, live);
        break;
      case Action::free_requested:
        if (states_.put(address, pending) == absent) unknown_frees_.push_back({i, false});
        break;
      case Action::free_completed:
        if (states_.erase(address) == absent) unknown_frees_.push_back({i, true});
        break;
      default:
        break;
    }
  }
  bool alive(Address address) const { return states_.find(address.value) != absent; }
  const std::vector<UnknownFree>& unknown_frees() const { return unknown_frees_; }

 private:
  using States = FlatMap<std::uint64_t, AddressHash>;
  static constexpr std::uint32_t live = 0;
  static constexpr std::uint32_t pending = 1;

  States states_;
  std::vector<UnknownFree> unknown_frees_;
};

/// The first entry that allocates or frees each address of `frees`.
std::unordered_map<std::uint64_t, std::size_t> first_uses(const Entries& entries,
                                                          const std::vector<UnknownFree>& frees) {
  std::unordered_map<std::uint64_t, std::size_t> first;
  for (const UnknownFree& free : frees) first.try_emplace(entries[free.entry].address, free.entry);
  for (std::size_t i = 0; i < entries.count(); ++i) {
    if (entries[i].action() != Action::alloc) continue;
    const auto found = first.find(entries[i].address);
    if (found != first.end()) found->second = std::min(found->second, i);
  }
  return first;
}

}  // namespace

std::vector<PreexistingSegment> find_preexisting_segments(const DeviceHistory& history) {
  std::vector<PreexistingSegment> result;
  RangeMap<bool> held;
  const auto add_gaps = [&](Range range, PoolStreamId pool_stream, bool mapped) {
    held.for_each_gap(range, [&](Range gap) {
      result.push_back(
          {.address = {gap.begin}, .size = {gap.end - gap.begin}, .pool_stream = pool_stream, .mapped = mapped});
    });
  };
  for (std::size_t i = 0; i < history.entries.count(); ++i) {
    const Entry& entry = history.entries[i];
    const Action action = entry.action();
    if (acquires_segment(action)) {
      held.set(Range::of(entry.address, entry.size), true);
    } else if (releases_segment(action)) {
      const Range range = Range::of(entry.address, entry.size);
      add_gaps(range, entry.pool_stream(), action == Action::segment_unmap);
      held.remove(range);
    }
  }
  for (const Segment& segment : history.segments)
    add_gaps(Range::of(segment.address.value, segment.size.count), segment.pool_stream, segment.expandable);
  std::ranges::sort(result, {}, &PreexistingSegment::address);
  return result;
}

PreexistingAllocations find_preexisting_allocations(const DeviceHistory& history) {
  PreexistingAllocations result;
  Allocations at_end;
  for (std::size_t i = 0; i < history.entries.count(); ++i) at_end.apply(history.entries[i], i);
  const std::vector<UnknownFree>& frees = at_end.unknown_frees();
  if (!frees.empty()) {
    const auto first = first_uses(history.entries, frees);
    for (const UnknownFree& free : frees) {
      const Entry& entry = history.entries[free.entry];
      if (first.at(entry.address) != free.entry) continue;
      result.allocations.push_back(
          {.block = {.address = {entry.address}, .requested = {entry.size}, .pending = free.pending},
           .pool_stream = entry.pool_stream()});
    }
  }
  for (const Segment& segment : history.segments) {
    for (const Block& block : segment.blocks) {
      if (at_end.alive(block.address)) continue;
      result.allocations.push_back({.block = block, .pool_stream = segment.pool_stream});
      result.was_recorded = result.was_recorded || block.stack != StackId::none;
    }
  }
  std::ranges::sort(result.allocations, {}, [](const PreexistingAllocation& a) { return a.block.address; });
  return result;
}

}  // namespace memreel::torch
