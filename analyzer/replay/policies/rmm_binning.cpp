// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/policies/rmm_binning.h"

#include <bit>

#include "analyzer/replay/engine/engine.h"
#include "analyzer/replay/engine/parameters.h"

namespace memreel {

void RmmBin::add_chunk(Address address, std::uint32_t stream) {
  chunks_.push_back(address);
  const auto first = static_cast<std::uint32_t>(next_.size());
  next_.resize(next_.size() + blocks_per_chunk);
  for (std::uint32_t i = 0; i < blocks_per_chunk; ++i) put(BlockId{first + i}, stream);
}

void RmmBin::put(BlockId block, std::uint32_t stream) {
  Queue& queue = queues_[stream];
  next_[index(block)] = BlockId::none;
  (queue.first == BlockId::none ? queue.first : next_[index(queue.last)]) = block;
  queue.last = block;
  nonempty_.set(stream, size_);
  ++free_count_;
}

BlockId RmmBin::take(std::uint32_t stream) {
  const auto find = [&](std::uint32_t in) { return take_first(in); };
  // A nonempty queue always fits, so there is never anything to merge.
  return find_in_streams(stream, static_cast<std::uint32_t>(queues_.size()), size_, nonempty_, find, [](auto, auto) {});
}

BlockId RmmBin::take_first(std::uint32_t stream) {
  Queue& queue = queues_[stream];
  const BlockId block = queue.first;
  if (block == BlockId::none) return block;
  queue.first = next_[index(block)];
  if (queue.first == BlockId::none) nonempty_.set(stream, 0_B);
  --free_count_;
  return block;
}

RmmBinning::RmmBinning(const Prepared& heap, const RmmBinningSettings& settings, Device& device)
    : smallest_(settings.smallest),
      largest_(settings.largest),
      streams_(heap.pool_streams, settings.pool.stream_order, true),
      pool_(streams_, settings.pool, device),
      pieces_(heap.slot_count + 1) {
  for (Bytes size = smallest_; size <= largest_; size = size * 2) {
    bins_.emplace_back(size, streams_.count());
    usable_ = usable_ && add_chunk(bins_.back(), streams_.default_stream());
  }
  measure();
}

bool RmmBinning::allocate(std::uint32_t slot, Bytes requested, std::uint32_t pool_stream) {
  if (!usable_) return false;
  Piece& piece = pieces_[slot];
  piece = {.stream = streams_[pool_stream]};
  if (requested == 0_B) return true;
  const bool served = requested <= largest_ ? allocate_in_bin(piece, requested) : allocate_in_pool(piece, requested);
  if (served) use_.allocated += extent_of(slot).size;
  measure();
  return served;
}

bool RmmBinning::allocate_in_pool(Piece& piece, Bytes requested) {
  piece.bin = in_pool;
  piece.block = pool_.allocate(round_up(requested, RmmPoolHeap::alignment), piece.stream);
  return piece.block != BlockId::none;
}

bool RmmBinning::allocate_in_bin(Piece& piece, Bytes requested) {
  const std::uint64_t times_smallest = (std::max(requested, smallest_).count - 1) / smallest_.count;
  piece.bin = static_cast<std::uint32_t>(std::bit_width(times_smallest));
  RmmBin& bin = bins_[piece.bin];
  if (bin.free_count() == 0 && !add_chunk(bin, piece.stream)) return false;
  piece.block = bin.take(piece.stream);
  free_in_bins_ -= bin.block_size();
  return true;
}

/// The pool sees a bin's chunk as allocated.
bool RmmBinning::add_chunk(RmmBin& bin, std::uint32_t stream) {
  const BlockId chunk = pool_.allocate(bin.chunk_size(), stream);
  if (chunk == BlockId::none) return false;
  bin.add_chunk(pool_.blocks()[chunk].address, stream);
  free_in_bins_ += bin.chunk_size();
  return true;
}

void RmmBinning::freed_on(std::uint32_t slot, std::uint32_t pool_stream) {
  Piece& piece = pieces_[slot];
  piece.stream = streams_[pool_stream];
  if (piece.bin == in_pool) pool_.freed_on(piece.block, piece.stream);
}

void RmmBinning::free_requested(std::uint32_t slot, Bytes) {
  const Piece& piece = pieces_[slot];
  use_.allocated -= extent_of(slot).size;
  if (piece.bin == in_pool) pool_.end_allocation(piece.block);
}

void RmmBinning::free_completed(std::uint32_t slot, Bytes) {
  const Piece& piece = pieces_[slot];
  if (piece.bin == nowhere) return;
  if (piece.bin == in_pool) {
    pool_.free(piece.block);
  } else {
    bins_[piece.bin].put(piece.block, piece.stream);
    free_in_bins_ += bins_[piece.bin].block_size();
  }
  measure();
}

void RmmBinning::measure() {
  use_.reserved = pool_.use().reserved;
  use_.free = pool_.use().free + free_in_bins_;
}

Bytes RmmBinning::largest_free() const {
  Bytes largest = pool_.largest_free();
  for (const RmmBin& bin : bins_)
    if (bin.free_count() > 0) largest = std::max(largest, bin.block_size());
  return largest;
}

Extent RmmBinning::extent_of(std::uint32_t slot) const {
  const Piece& piece = pieces_[slot];
  if (piece.bin == nowhere) return {};
  if (piece.bin == in_pool) return {pool_.blocks()[piece.block].address, pool_.blocks()[piece.block].size};
  return {bins_[piece.bin].address_of(piece.block), bins_[piece.bin].block_size()};
}

PolicyEntry rmm_binning_entry() {
  const AllowedValues bin_size = AllowedValues::power_of_two(RmmPoolSettings::alignment, RmmBinningSettings::most);
  return {.info = {.name = RmmBinningSettings::policy,
                   .description = "RAPIDS RMM's binning_memory_resource: bins of equal blocks, behind them a pool",
                   .parameters =
                       [&] {
                         auto parameters = RmmPoolSettings::parameters();
                         parameters.push_back(
                             {"smallest", "256KiB", bin_size, "the size of the smallest bin; at most `largest`"});
                         parameters.push_back({"largest", "4MiB", bin_size, "the size of the largest bin"});
                         return parameters;
                       }()},
          .bind = [](const PolicySpec& spec) -> Result<BoundPolicy> {
            const auto pool = RmmPoolSettings::of(spec);
            if (!pool) return pool.error();
            const Bytes largest = size_of(spec, "largest");
            const auto smallest = size_within(spec, "smallest", RmmPoolSettings::alignment, largest);
            if (!smallest) return smallest.error();
            return BoundPolicy{
                .spec = spec,
                .unit = RmmPoolSettings::alignment,
                .run = [settings = RmmBinningSettings{.smallest = *smallest, .largest = largest, .pool = *pool}](
                           const Prepared& heap, const RunOptions& options) {
                  return run_policy<RmmBinning>(heap, settings, options);
                }};
          }};
}

}  // namespace memreel
