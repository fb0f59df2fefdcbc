// Continues PyTorch's allocator from where a recording began.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "analyzer/engine/device.h"
#include "analyzer/engine/prepared.h"
#include "analyzer/heap/block_table.h"
#include "analyzer/policies/torch_pools.h"

namespace memreel {

/// Puts a new allocator into the state in which a recording began. The segments are as old as their order says, which
/// matters where that breaks ties (TorchRelease::TieBreak).
template <class Allocator>
class TorchResume {
 public:
  TorchResume(const InitialState& initial, Allocator& into) : initial_(initial), into_(into) {
    if (!hold()) return;
    find_slots();
    for (std::size_t i = 0; i < initial_.segments.size();)
      i = initial_.segments[i].mapped ? add_range(i) : add_segment(i);
    succeeded_ = true;
  }

  /// False if the device has no room for it: the allocator is as new.
  bool succeeded() const { return succeeded_; }

 private:
  using Arena = typename Allocator::Arena;

  Arena& arena_of(std::size_t segment) {
    return into_.pools_.of_pool_stream(initial_.pool_stream[segment], initial_.segments[segment].small);
  }
  /// Whether the segment continues the expandable segment of the one before.
  bool continues(std::size_t i) const {
    return initial_.segments[i].mapped && i > 0 && initial_.segments[i - 1].mapped &&
           initial_.segments[i].range == initial_.segments[i - 1].range;
  }

  /// Takes the memory from the device, all or none.
  bool hold() {
    Bytes total;
    for (const InitialSegment& segment : initial_.segments) total += segment.size;
    if (!into_.device_.allows(total)) return false;
    const Bytes run = into_.settings_.run_size(true);
    for (std::size_t i = 0; i < initial_.segments.size(); ++i) {
      const InitialSegment& segment = initial_.segments[i];
      if (segment.mapped && !continues(i)) ranges_.push_back(into_.device_.hold_addresses(segment.range, {}, run));
      std::optional<Address> at;
      if (!segment.mapped)
        at = into_.device_.hold(segment.address, segment.size);
      else if (ranges_.back() && segment.address + segment.size - segment.range < ranges_.back()->size)
        at = ranges_.back()->address + (segment.address - segment.range);
      if (at && segment.mapped && !into_.device_.hold_mapped(*at, segment.size)) at.reset();
      if (!at) {
        give_back();
        return false;
      }
      addresses_.push_back(*at);
    }
    return true;
  }

  /// Slots are numbered in order of addresses.
  void find_slots() {
    const std::vector<InitialSegment>& segments = initial_.segments;
    std::vector<std::size_t> by_address(segments.size());
    std::iota(by_address.begin(), by_address.end(), 0);
    std::ranges::sort(by_address, {}, [&](std::size_t i) { return segments[i].address; });
    first_slot_.resize(segments.size());
    std::uint32_t slot = 0;
    for (const std::size_t i : by_address) {
      first_slot_[i] = slot;
      for (const InitialBlock& block : segments[i].blocks) slot += block.use != InitialUse::free ? 1 : 0;
    }
  }

  void give_back() {
    for (std::size_t i = 0; i < addresses_.size(); ++i) {
      const auto& [address, size] = std::pair(addresses_[i], initial_.segments[i].size);
      initial_.segments[i].mapped ? into_.device_.unmap(address, size) : into_.device_.release(address, size);
    }
    for (const auto& range : ranges_)
      if (range) into_.device_.release_addresses(range->address);
  }

  std::size_t add_segment(std::size_t i) {
    const InitialSegment& segment = initial_.segments[i];
    Arena& arena = arena_of(i);
    into_.observer_.segment_reserved(arena.small, segment.size);
    into_.pools_.use().reserved += segment.size;
    BlockId rest = into_.table_.add(addresses_[i], segment.size, arena.number);
    add_blocks(i, rest, arena, true);
    return i + 1;
  }

  /// A whole expandable segment, of which segment `i` is the first memory.
  std::size_t add_range(std::size_t i) {
    Arena& arena = arena_of(i);
    const Bytes run = into_.settings_.run_size(arena.small);
    const Device::Addresses& addresses = *ranges_[next_range_++];
    const BlockId rest = into_.expandable_.resume(arena, addresses, run);
    Address at = addresses.address;
    do {
      const Bytes size = initial_.segments[i].size;
      if (addresses_[i] > at) {
        const BlockId gap = into_.table_.split_front(rest, addresses_[i] - at);
        into_.pools_.note_made(gap);
        into_.expandable_.resume_unmapped(arena, gap);
      }
      into_.observer_.mapped({arena.small, size, size / run});
      into_.pools_.use().reserved += size;
      add_blocks(i, rest, arena, false);
      at = addresses_[i] + size;
      ++i;
    } while (i < initial_.segments.size() && continues(i));
    into_.pools_.note_made(rest);
    into_.expandable_.resume_unmapped(arena, rest);
    return i;
  }

  /// Cuts the blocks of a segment off the front of `rest`, which they use up if it `ends` there.
  void add_blocks(std::size_t i, BlockId rest, const Arena& arena, bool ends) {
    const std::vector<InitialBlock>& blocks = initial_.segments[i].blocks;
    slot_ = first_slot_[i];
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      Bytes size = blocks[b].size;
      const InitialUse use = blocks[b].use;
      // The pool of an allocation decides whether the block is split; a history tells only later on.
      const bool takes_rest = arena.splits == TorchSplits::never && ends && use != InitialUse::free &&
                              b + 1 < blocks.size() && blocks[b + 1].use == InitialUse::free;
      if (takes_rest) size += blocks[++b].size;
      const bool last = ends && b + 1 == blocks.size();
      const BlockId id = last ? rest : into_.table_.split_front(rest, size);
      into_.pools_.note_made(id);
      add_block(id, use, arena);
    }
  }

  void add_block(BlockId id, InitialUse use, const Arena& arena) {
    Block& block = into_.table_[id];
    if (use == InitialUse::free) {
      into_.pools_.put_free(id);
    } else {
      block.state = use == InitialUse::allocated ? BlockState::allocated : BlockState::pending;
      into_.block_of_[slot_] = id;
      if (use == InitialUse::allocated)
        into_.pools_.use().allocated += block.size;
      else
        ++into_.pending_;
    }
    const Bytes requested = use == InitialUse::free ? Bytes{} : initial_.requested[slot_];
    into_.observer_.held(slot_, arena.small, into_.table_[id], requested);
    if (use != InitialUse::free) ++slot_;
  }

  const InitialState& initial_;
  Allocator& into_;
  std::vector<std::optional<Device::Addresses>> ranges_;
  std::vector<Address> addresses_;         // the policy's, of each segment
  std::vector<std::uint32_t> first_slot_;  // of each segment
  std::size_t next_range_ = 0;
  std::uint32_t slot_ = 0;
  bool succeeded_ = false;
};

}  // namespace memreel
