// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/policies/cuda_async.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>

#include "analyzer/replay/engine/engine.h"

namespace memreel {

CudaAsyncSettings cuda_async_settings(const PolicySpec& spec) {
  const bool never = spec.parameters.at("release_threshold") == "max";
  return {.release_threshold = never ? CudaAsyncSettings::never : size_of(spec, "release_threshold"),
          .follow_events = is_true(spec, "follow_events"),
          .opportunistic = is_true(spec, "opportunistic"),
          .internal_dependencies = is_true(spec, "internal_dependencies")};
}

namespace {

/// More than any device has, yet small enough to keep an entry for each chunk of 32 MiB.
constexpr Bytes addresses{std::uint64_t{1} << 44U};

}  // namespace

CudaAsync::CudaAsync(const Prepared& heap, const CudaAsyncSettings& settings, SimulatedDevice& device)
    : BlockPolicy(heap), settings_(settings), device_(device) {
  std::map<StreamId, std::uint32_t> numbers;
  for (const PoolStream& pool_stream : heap.pool_streams) {
    const auto [found, is_new] = numbers.try_emplace(pool_stream.stream, static_cast<std::uint32_t>(streams_.size()));
    if (is_new) streams_.push_back({.id = pool_stream.stream, .free = new_index()});
    stream_of_pool_stream_.push_back(found->second);
  }
  if (streams_.empty()) {
    streams_.push_back({.free = new_index()});
    stream_of_pool_stream_.push_back(0);
  }
  largest_.resize(streams_.size());
}

bool CudaAsync::allocate(std::uint32_t slot, Bytes requested, std::uint32_t pool_stream) {
  const Bytes size = round_up(std::max(requested, 1_B), spacing);
  const std::uint32_t number = stream_of_pool_stream_[pool_stream];
  if (!streams_[number].has_allocated) {
    streams_[number].has_allocated = true;
    streams_[number].rank = static_cast<std::uint32_t>(allocating_.size());
    allocating_.push_back(number);
  }
  ++calls_.malloc_async;
  const BlockId block = find(number, size);
  const BlockId taken = block != BlockId::none ? take(block, size) : BlockId::none;
  if (taken == BlockId::none) {
    measure();
    return false;
  }
  use_.allocated += size;
  table_[taken].arena = number;
  block_of_[slot] = taken;
  measure();
  return true;
}

/// A free block of at least `size` bytes whose memory is mapped, or none.
BlockId CudaAsync::find(std::uint32_t stream, Bytes size) {
  if (const BlockId own = streams_[stream].free.find(size); own != BlockId::none) return own;
  if (const BlockId whole = whole_.find(size); whole != BlockId::none) return whole;
  if (settings_.follow_events)
    if (const BlockId ordered = find_ordered(stream, size); ordered != BlockId::none) return ordered;
  if (settings_.opportunistic) {
    if (const BlockId passed = find_elsewhere(stream, size); passed != BlockId::none) return passed;
    release_everything();
  }
  if (const BlockId block = take_with_memory(size); block != BlockId::none) return block;
  return settings_.internal_dependencies ? find_elsewhere(stream, size) : BlockId::none;
}

/// In the lists of streams for which this one waited, freed before what it waited for.
BlockId CudaAsync::find_ordered(std::uint32_t stream, Bytes size) const {
  BlockId found = BlockId::none;
  std::uint32_t rank = 0;
  for (const auto& [other, moment] : streams_[stream].known) {
    if (found != BlockId::none && streams_[other].rank > rank) continue;
    const OldestFitIndex& list = streams_[other].free;
    BlockId block = list.find(size);
    while (block != BlockId::none && freed_at_[index(block)] > moment) block = list.after(block);
    if (block == BlockId::none) continue;
    found = block;
    rank = streams_[other].rank;
  }
  return found;
}

/// In the list of any other stream.
BlockId CudaAsync::find_elsewhere(std::uint32_t stream, Bytes size) const {
  for (std::size_t rank = largest_.first(size); rank < allocating_.size(); rank = largest_.first(size, rank + 1))
    if (allocating_[rank] != stream) return streams_[allocating_[rank]].free.find(size);
  return BlockId::none;
}

/// The best fit in the common list, mapped or not.
BlockId CudaAsync::find_in_common(Bytes size) const {
  const BlockId whole = whole_.find(size), partly = partly_.find(size);
  if (whole == BlockId::none || partly == BlockId::none) return whole == BlockId::none ? partly : whole;
  const auto rank = [&](BlockId id) { return std::pair(table_[id].size, ages_.since(id)); };
  return rank(whole) < rank(partly) ? whole : partly;
}

/// A block from the common list whose unmapped chunks can be given memory, or one at the end of the range.
BlockId CudaAsync::take_with_memory(Bytes size) {
  if (const BlockId block = find_in_common(size); block != BlockId::none) {
    if (!back_with_memory(table_[block].address, size)) return BlockId::none;
    return block;
  }
  const bool extends =
      last_ != BlockId::none && table_[last_].state == BlockState::free && table_[last_].arena == common();
  const Address end = last_ == BlockId::none ? Address{} : table_[last_].address + table_[last_].size;
  const Address begin = extends ? table_[last_].address : end;
  if (size > addresses || begin > Address{} + (addresses - size)) return BlockId::none;
  if (!back_with_memory(begin, size)) return BlockId::none;
  const Address new_end{std::max(end.value, round_up(Bytes{begin.value} + size, PoolChunks::size).count)};
  if (extends) {
    take_out(last_);
    table_[last_].size = new_end - begin;
  } else {
    const BlockId before = last_;
    last_ = table_.add(begin, new_end - begin, common());
    add_columns();
    if (before != BlockId::none) table_.link(before, last_);
  }
  const BlockId block = last_;
  put_free(block, common());
  return block;
}

/// Returns false if there is not enough memory.
bool CudaAsync::back_with_memory(Address address, Bytes size) {
  const std::size_t missing = chunks_.missing(address, size);
  if (missing == 0) return true;
  const std::size_t spare = std::min(spare_, missing);
  const std::size_t moved = chunks_.idle(address, size, missing - spare);
  const std::size_t fresh = device_.extend_by(PoolChunks::size, missing - spare - moved);
  calls_.unmap += moved;
  chunks_.unmap_idle(address, size, moved);
  if (moved > 0) note_lost_memory();
  if (spare + moved + fresh < missing) {
    spare_ += moved + fresh;
    drop_spare(chunks_kept());
    return false;
  }
  spare_ -= spare;
  calls_.map += missing;
  chunks_.map(address, size);
  return true;
}

/// Allocates the front of a free block; the rest stays in its list.
BlockId CudaAsync::take(BlockId id, Bytes size) {
  const std::uint32_t list = table_[id].arena;
  take_out(id);
  const bool splits = table_[id].size > size;
  const BlockId front = splits ? table_.split_front(id, size) : id;
  if (freed_at_.size() < table_.limit()) [[unlikely]]
    add_columns();
  table_[front].state = BlockState::allocated;
  if (list == common()) chunks_.occupy(table_[front].address, size);
  if (splits) enlist(id, list);  // no neighbour is in that list: it would have been merged
  return front;
}

void CudaAsync::free_requested(std::uint32_t slot, Bytes) {
  const BlockId id = block_of_[slot];
  const std::uint32_t stream = table_[id].arena;
  ++calls_.free_async;
  use_.allocated -= table_[id].size;
  const Moment now = ++streams_[stream].now;
  freed_at_[index(id)] = now;
  put_free(id, stream);
  measure();
}

/// Adds entries for a block that is new to the table.
void CudaAsync::add_columns() {
  freed_at_.resize(table_.limit());
  listing_.resize(table_.limit());
}

/// Merges a block with free neighbours in the same list.
void CudaAsync::put_free(BlockId id, std::uint32_t list) {
  Block& block = table_[id];
  block.state = BlockState::free;
  block.arena = list;
  const auto joins = [&](const Block& near) { return near.state == BlockState::free && near.arena == list; };
  table_.absorb_neighbours(id, joins, [&](BlockId neighbour) {
    take_out(neighbour);
    if (neighbour == last_) last_ = id;
  });
  enlist(id, list);
}

void CudaAsync::enlist(BlockId id, std::uint32_t list) {
  ages_.renew(id);
  if (list == common()) return list_in_common(id);
  StreamState& stream = streams_[list];
  stream.free.insert(id);
  largest_.set(stream.rank, stream.free.largest());
}

void CudaAsync::take_out(BlockId id) {
  const Block& block = table_[id];
  if (block.arena == common()) return take_out_of_common(id);
  StreamState& stream = streams_[block.arena];
  stream.free.erase(id);
  largest_.set(stream.rank, stream.free.largest());
}

void CudaAsync::list_in_common(BlockId id) {
  const Block& block = table_[id];
  Listing& listing = listing_[index(id)];
  listing.mapped = chunks_.mapped_bytes(block.address, block.size);
  if (id == last_) {
    listing.as = Listed::at_end;
    return;
  }
  const bool whole = listing.mapped == block.size;
  listing.as = whole ? Listed::whole : Listed::partly;
  (whole ? whole_ : partly_).insert(id);
  if (whole) return;
  mapped_in_partly_.insert(listing.mapped);
  largest_in_partly_ = *mapped_in_partly_.rbegin();
}

void CudaAsync::take_out_of_common(BlockId id) {
  Listing& listing = listing_[index(id)];
  if (listing.as == Listed::whole) whole_.erase(id);
  if (listing.as == Listed::partly) {
    partly_.erase(id);
    mapped_in_partly_.erase(mapped_in_partly_.find(listing.mapped));
    largest_in_partly_ = mapped_in_partly_.empty() ? Bytes{} : *mapped_in_partly_.rbegin();
  }
  listing.as = Listed::no;
}

/// Handles unmapped chunks in blocks of the common list. Only blocks at least as large as a chunk can be affected.
void CudaAsync::note_lost_memory() {
  const auto mapped = [&](BlockId id) { return chunks_.mapped_bytes(table_[id].address, table_[id].size); };
  std::vector<BlockId> concerned;
  const auto look = [&](BlockId id) {
    if (mapped(id) != listing_[index(id)].mapped) concerned.push_back(id);
  };
  whole_.for_each(PoolChunks::size, look);
  partly_.for_each(PoolChunks::size, look);
  if (last_ != BlockId::none && listing_[index(last_)].as == Listed::at_end) look(last_);
  for (const BlockId id : concerned) {
    take_out_of_common(id);  // remove and reinsert, keeping its age
    list_in_common(id);
  }
}

/// Moves a stream's blocks freed up to a moment to the common list. Returns false if there are none.
bool CudaAsync::release(std::uint32_t stream, Moment known) {
  std::vector<std::pair<Moment, BlockId>> blocks;
  streams_[stream].free.for_each({}, [&](BlockId id) {
    if (const Moment moment = freed_at_[index(id)]; moment <= known) blocks.emplace_back(moment, id);
  });
  std::ranges::sort(blocks, std::greater{});
  for (const auto& [moment, id] : blocks) {
    take_out(id);
    chunks_.vacate(table_[id].address, table_[id].size);
    put_free(id, common());
  }
  return !blocks.empty();
}

bool CudaAsync::release_everything() {
  bool any = false;
  for (std::size_t rank = largest_.first(1_B); rank < allocating_.size(); rank = largest_.first(1_B, rank + 1))
    any |= release(allocating_[rank], streams_[allocating_[rank]].now);
  return any;
}

void CudaAsync::device_synchronized() {
  ++calls_.sync;
  if (release_everything()) shrink_to(chunks_kept());
  measure();
}

void CudaAsync::stream_synchronized(std::uint32_t pool_stream) {
  ++calls_.sync;
  const std::uint32_t stream = stream_of_pool_stream_[pool_stream];
  Known known = streams_[stream].known;
  std::erase_if(known, [&](const auto& other) { return other.first == stream; });
  known.emplace_back(stream, streams_[stream].now);
  std::ranges::sort(known, {}, [&](const auto& other) { return streams_[other.first].rank; });
  bool any = false;
  for (const auto& [other, moment] : known) any |= release(other, moment);
  if (any) shrink_to(chunks_kept());
  measure();
}

void CudaAsync::stream_waits(std::uint32_t awaited_pool_stream, std::uint32_t waiting_pool_stream) {
  const std::uint32_t awaited = stream_of_pool_stream_[awaited_pool_stream];
  const std::uint32_t waiting = stream_of_pool_stream_[waiting_pool_stream];
  if (awaited == waiting) return;
  Known& known = streams_[waiting].known;
  const Known& passed_on = streams_[awaited].known;
  if (known.size() + passed_on.size() <= most_known) {
    Known all;
    std::ranges::merge(known, passed_on, std::back_inserter(all));
    // Of two moments of one stream, the later comes last.
    known.clear();
    for (const auto& [stream, moment] : all)
      if (!known.empty() && known.back().first == stream)
        known.back().second = moment;
      else
        known.emplace_back(stream, moment);
  }
  const auto place = std::ranges::lower_bound(known, awaited, {}, &Known::value_type::first);
  if (place != known.end() && place->first == awaited)
    place->second = streams_[awaited].now;
  else
    known.emplace(place, awaited, streams_[awaited].now);
}

void CudaAsync::empty_cache() {
  device_synchronized();
  shrink_to(0);
  measure();
}

std::size_t CudaAsync::chunks_kept() const { return settings_.release_threshold.count / PoolChunks::size.count; }

/// Releases what it can until only this many chunks are left.
void CudaAsync::shrink_to(std::size_t chunks) {
  drop_spare(chunks);
  if (chunks_.mapped() <= chunks) return;
  const std::size_t count = chunks_.idle({}, {}, chunks_.mapped() - chunks);
  if (count == 0) return;
  chunks_.unmap_idle({}, {}, count);
  calls_.unmap += count;
  device_.shrink(PoolChunks::size * count);
  note_lost_memory();
}

void CudaAsync::drop_spare(std::size_t chunks) {
  const std::size_t all = chunks_.mapped() + spare_;
  const std::size_t dropped = std::min(spare_, all - std::min(all, chunks));
  spare_ -= dropped;
  calls_.unmap += dropped;
  device_.shrink(PoolChunks::size * dropped);
}

void CudaAsync::measure() {
  use_.reserved = PoolChunks::size * (chunks_.mapped() + spare_);
  use_.free = use_.reserved - use_.allocated;
}

Bytes CudaAsync::largest_free() const {
  Bytes largest = std::max({whole_.largest(), largest_in_partly_, spare_ > 0 ? PoolChunks::size : Bytes{}});
  if (last_ != BlockId::none && listing_[index(last_)].as == Listed::at_end)
    largest = std::max(largest, listing_[index(last_)].mapped);
  return std::max(largest, largest_.largest());
}

PolicyEntry cuda_async_entry() {
  return {.info = {.name = "cuda.async",
                   .description = "every request a cudaMallocAsync, every free a cudaFreeAsync, in one pool",
                   .parameters =
                       {{"release_threshold", "0", AllowedValues::size("64MiB", {"max"}),
                         "what the pool keeps when the host waits for the device: cudaMemPoolAttrReleaseThreshold"},
                        {"follow_events", "true", AllowedValues::flag(),
                         "a stream takes what another freed before an event that it waited for: "
                         "cudaMemPoolReuseFollowEventDependencies"},
                        {"opportunistic", "true", AllowedValues::flag(),
                         "a stream takes what another freed and the device is done with: "
                         "cudaMemPoolReuseAllowOpportunistic"},
                        {"internal_dependencies", "true", AllowedValues::flag(),
                         "when memory runs out, a stream waits for the frees of others: "
                         "cudaMemPoolReuseAllowInternalDependencies"}},
                   .sub_allocates = false},
          .bind = [](const PolicySpec& spec) -> Result<BoundPolicy> {
            return BoundPolicy{
                .spec = spec,
                .unit = PoolChunks::size,
                .run = [settings = cuda_async_settings(spec)](const Prepared& heap, const RunOptions& options) {
                  return run_policy<CudaAsync>(heap, settings, options);
                }};
          }};
}

}  // namespace memreel
