// SPDX-License-Identifier: Apache-2.0
// Continues PyTorch's allocator from where a recording began.
#pragma once

#include <algorithm>
#include <map>
#include <numeric>
#include <span>

#include "analyzer/replay/engine/device.h"
#include "analyzer/replay/engine/prepared.h"
#include "analyzer/replay/heap/block_table.h"
#include "analyzer/replay/policies/torch_pools.h"
#include "formats/torch/settings.h"

namespace memreel {

/// What no history tells about the state in which it began. A block's number: its place among those of all segments.
struct TorchInitialAges {
  std::vector<std::size_t> made;            // all blocks, the oldest first; empty: see default_order()
  std::map<Address, std::uint64_t> unused;  // of free blocks, by recorded address: searches since they became free
};

/// What is split off a segment is made after it, and what was split off later tends to lie behind.
inline std::vector<std::size_t> default_order(std::span<const InitialSegment> segments) {
  std::vector<std::size_t> order;
  for (const InitialSegment& segment : segments) {
    const std::size_t first = order.size();
    for (std::size_t i = 0; i < segment.blocks.size(); ++i) order.push_back(first + i);
    std::rotate(order.begin() + static_cast<std::ptrdiff_t>(first), order.end() - (segment.blocks.empty() ? 0 : 1),
                order.end());
  }
  return order;
}

/// Puts a new allocator into the state in which a recording began. Where ages break ties (TorchRelease::TieBreak),
/// segments are as old as their order says, and blocks as `ages` says.
template <class Allocator>
class TorchResume {
 public:
  TorchResume(const InitialState& initial, const TorchInitialAges& ages, Allocator& into)
      : initial_(initial), ages_(ages), into_(into) {
    if (!hold()) return;
    find_slots();
    for (std::size_t i = 0; i < initial_.segments.size();)
      i = initial_.segments[i].mapped ? add_range(i) : add_segment(i);
    number_blocks();
    for (const Cut& cut : cuts_) add_block(cut);
    succeeded_ = true;
  }

  /// False if the device has no room for it: the allocator is as new.
  bool succeeded() const { return succeeded_; }

 private:
  using Arena = typename Allocator::Arena;

  struct Range {
    Address begin;           // as recorded
    Device::Addresses held;  // the policy's
    bool contains(const InitialSegment& segment) const { return segment.address + segment.size - begin <= held.size; }
  };
  /// A block that is not in its list yet.
  struct Cut {
    BlockId id = BlockId::none;
    InitialUse use = InitialUse::free;
    bool small = false;
    std::uint32_t slot = 0;  // if in use
    std::size_t number = 0;
  };

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
    for (std::size_t i = 0; i < initial_.segments.size(); ++i) {
      const InitialSegment& segment = initial_.segments[i];
      if (segment.mapped && !continues(i)) ranges_.push_back(hold_range(i));
      std::optional<Address> at;
      if (!segment.mapped)
        at = into_.device_.hold(segment.address, segment.size);
      else if (const auto& range = ranges_.back(); range && range->contains(segment))
        at = range->held.address + (segment.address - range->begin);
      if (at && segment.mapped && !into_.device_.hold_mapped(*at, segment.size)) at.reset();
      if (!at) {
        give_back();
        return false;
      }
      addresses_.push_back(*at);
    }
    return true;
  }

  /// The addresses of the expandable segment of which segment `i` is the first memory. Where their size is limited and
  /// another one follows, they end there, so they began below the lowest memory that was ever mapped.
  std::optional<Range> hold_range(std::size_t i) {
    const InitialSegment& segment = initial_.segments[i];
    const Arena& arena = arena_of(i);
    const Bytes run = into_.settings_.run_size(arena.small);
    Bytes most = TorchSettings::unlimited;
    if (into_.settings_.reserve.is_set())
      most = into_.settings_.reserve.limit(arena.stream_handle).value_or(TorchSettings::unlimited);
    Address begin = segment.range, end;
    for (std::size_t k = i; k == i || (k < initial_.segments.size() && continues(k)); ++k)
      end = initial_.segments[k].address + initial_.segments[k].size;
    if (most != TorchSettings::unlimited) most = round_up(most, run);
    if (end - begin > most) most = TorchSettings::unlimited;  // it is two that can't be told apart
    if (most != TorchSettings::unlimited) {
      end = begin + most;
      for (const InitialSegment& other : initial_.segments)
        if (other.range > segment.range) end = std::min(end, other.range);
      const Bytes before = most - (end - begin);
      if (before.count % run.count == 0 && before.count < begin.value) begin = begin - before;
    }
    const auto held = into_.device_.hold_addresses(begin, {}, TorchSettings::small_segment);
    if (!held) return std::nullopt;
    return Range{begin, {held->address, std::min(held->size, most)}};
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
      if (range) into_.device_.release_addresses(range->held.address);
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
    const Device::Addresses& addresses = ranges_[next_range_++]->held;
    const BlockId rest = into_.expandable_.resume(arena, addresses, run);
    Address at = addresses.address;
    bool ends = false;
    do {
      const Bytes size = initial_.segments[i].size;
      if (addresses_[i] > at) {
        const BlockId gap = into_.table_.split_front(rest, addresses_[i] - at);
        into_.pools_.note_made(gap);
        into_.expandable_.resume_unmapped(arena, gap);
      }
      into_.observer_.mapped({arena.small, size, size / run});
      into_.pools_.use().reserved += size;
      at = addresses_[i] + size;
      ends = at == addresses.address + addresses.size;
      add_blocks(i, rest, arena, ends);
      ++i;
    } while (i < initial_.segments.size() && continues(i));
    if (ends) return i;
    into_.pools_.note_made(rest);
    into_.expandable_.resume_unmapped(arena, rest);
    return i;
  }

  /// Cuts the blocks of a segment off the front of `rest`, which they use up if it `ends` there.
  void add_blocks(std::size_t i, BlockId rest, const Arena& arena, bool ends) {
    std::vector<InitialBlock> blocks = initial_.segments[i].blocks;
    slot_ = first_slot_[i];
    Address end = addresses_[i];
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      const InitialUse use = blocks[b].use;
      const std::size_t number = numbers_ + b;
      Bytes size = blocks[b].size;
      end = end + size;
      // The pool of an allocation decides whether the block is split; a history tells only later on.
      if (arena.splits == TorchSplits::nothing && use != InitialUse::free && b + 1 < blocks.size() &&
          blocks[b + 1].use == InitialUse::free) {
        Bytes& behind = blocks[b + 1].size;
        const Bytes used = end - addresses_[i];
        const Bytes more = initial_.segments[i].mapped
                               ? std::min(behind, round_up(used, into_.settings_.run_size(arena.small)) - used)
                               : behind;
        end = end + more;
        size += more;
        behind -= more;
        if (behind == 0_B) ++b;
      }
      const bool last = ends && b + 1 == blocks.size();
      const BlockId id = last ? rest : into_.table_.split_front(rest, size);
      cuts_.push_back({.id = id, .use = use, .small = arena.small, .slot = slot_, .number = number});
      if (use != InitialUse::free) ++slot_;
    }
    numbers_ += blocks.size();
  }

  /// Their ages are their order in the index of free blocks.
  void number_blocks() {
    std::vector<BlockId> ids(numbers_, BlockId::none);
    for (const Cut& cut : cuts_) ids[cut.number] = cut.id;
    into_.initial_made_.clear();
    for (const std::size_t number : ages_.made.empty() ? default_order(initial_.segments) : ages_.made) {
      if (ids[number] == BlockId::none) continue;  // part of the one before it
      into_.pools_.note_made(ids[number]);
      if (into_.initial_made_.empty()) into_.before_initial_ = into_.pools_.made(ids[number]) - 1;
      into_.initial_made_.push_back(number);
    }
  }

  void add_block(const Cut& cut) {
    Block& block = into_.table_[cut.id];
    if (cut.use == InitialUse::free) {
      into_.pools_.put_free(cut.id);
      if (const auto unused = ages_.unused.find(into_.device_.real(block.address)); unused != ages_.unused.end())
        into_.pools_.make_unused_for(cut.id, unused->second);
    } else {
      block.state = cut.use == InitialUse::allocated ? BlockState::allocated : BlockState::pending;
      into_.block_of_[cut.slot] = cut.id;
      if (cut.use == InitialUse::allocated)
        into_.pools_.use().allocated += block.size;
      else
        ++into_.pending_;
    }
    const Bytes requested = cut.use == InitialUse::free ? Bytes{} : initial_.requested[cut.slot];
    into_.observer_.held(cut.slot, cut.small, block, requested);
  }

  const InitialState& initial_;
  const TorchInitialAges& ages_;
  Allocator& into_;
  std::vector<std::optional<Range>> ranges_;
  std::vector<Cut> cuts_;
  std::size_t numbers_ = 0;                // of the blocks in cuts_
  std::vector<Address> addresses_;         // the policy's, of each segment
  std::vector<std::uint32_t> first_slot_;  // of each segment
  std::size_t next_range_ = 0;
  std::uint32_t slot_ = 0;
  bool succeeded_ = false;
};

}  // namespace memreel
