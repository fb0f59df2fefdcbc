// SPDX-License-Identifier: Apache-2.0
#include "analyzer/device/real_pools.h"

#include <algorithm>

namespace memreel::gpu {
namespace {

constexpr Bytes range_addresses = 1024_GiB;  // more than any GPU has; addresses cost nothing

}  // namespace

RealMemory::~RealMemory() {
  for (const auto& [address, segment] : segments_) give_back(segment.address, segment.size);
  for (const Mapping& mapping : range_mappings_) gpu_.unmap(mapping.address, mapping.size);
  if (range_ != 0) gpu_.free_addresses(range_, range_addresses);
}

bool RealMemory::reserve(Address address, Bytes size) {
  std::optional<DevicePointer> pointer;
  if (how_ == SegmentsBy::malloc) {
    pointer = gpu_.malloc(size);
  } else {
    size = round_up(size, granularity);
    pointer = gpu_.reserve_addresses(size);
    if (pointer && !gpu_.map_new(*pointer, size)) {
      gpu_.free_addresses(*pointer, size);
      pointer.reset();
    }
  }
  if (!pointer) return false;
  segments_[address.value] = {.address = *pointer, .size = size};
  measure();
  return true;
}

void RealMemory::release(Address address, Bytes) {
  const auto found = segments_.find(address.value);
  if (found == segments_.end()) return;
  give_back(found->second.address, found->second.size);
  segments_.erase(found);
}

bool RealMemory::extend(Bytes size) {
  if (size.count % granularity.count != 0) {
    misaligned_ = true;
    return false;
  }
  if (range_ == 0) range_ = gpu_.reserve_addresses(range_addresses).value_or(0);
  const DevicePointer end =
      range_mappings_.empty() ? range_ : range_mappings_.back().address + range_mappings_.back().size.count;
  if (range_ == 0 || end + size.count > range_ + range_addresses.count || !gpu_.map_new(end, size)) return false;
  range_mappings_.push_back({.address = end, .size = size});
  measure();
  return true;
}

void RealMemory::shrink(Bytes size) {
  while (size > 0_B && !range_mappings_.empty()) {
    Mapping& last = range_mappings_.back();
    gpu_.unmap(last.address, last.size);
    if (last.size <= size) {
      size -= last.size;
      range_mappings_.pop_back();
    } else {
      // Only whole mappings can be undone; a replay stores nothing in the memory, so the rest is mapped again.
      last.size -= size;
      size = 0_B;
      if (!gpu_.map_new(last.address, last.size)) range_mappings_.pop_back();
    }
  }
}

void RealMemory::give_back(DevicePointer pointer, Bytes size) {
  if (how_ == SegmentsBy::malloc) {
    gpu_.free(pointer, size);
  } else {
    gpu_.unmap(pointer, size);
    gpu_.free_addresses(pointer, size);
  }
}

void RealMemory::measure() {
  highest_taken_ = std::max(highest_taken_, free_at_start_ - std::min(gpu_.free_memory(), free_at_start_));
}

RealMalloc::RealMalloc(const Prepared& heap, Gpu& gpu, std::optional<Bytes> capacity)
    : gpu_(gpu), free_at_start_(gpu.free_memory()), capacity_(capacity), pointers_(heap.slot_count + 1) {}

RealMalloc::~RealMalloc() {
  for (const DevicePointer pointer : pointers_)
    if (pointer != 0) gpu_.free(pointer, {});
}

bool RealMalloc::allocate(std::uint32_t slot, Bytes size, std::uint32_t) {
  size = std::max(size, 1_B);
  const auto pointer = gpu_.malloc(size);
  ++calls_.malloc;
  if (!pointer) return false;
  const Bytes before = use_.reserved;
  measure();
  if (use_.reserved == before) ++calls_.malloc_shared;
  if (capacity_ && use_.reserved > *capacity_) {
    gpu_.free(*pointer, size);
    ++calls_.free;
    measure();
    return false;
  }
  pointers_[slot] = *pointer;
  use_.allocated += size;
  return true;
}

void RealMalloc::free_requested(std::uint32_t slot, Bytes size) {
  size = std::max(size, 1_B);
  gpu_.free(pointers_[slot], size);
  ++calls_.free;
  pointers_[slot] = 0;
  use_.allocated -= size;
  const Bytes before = use_.reserved;
  measure();
  if (use_.reserved == before) ++calls_.free_shared;
}

void RealMalloc::measure() { use_.reserved = free_at_start_ - std::min(gpu_.free_memory(), free_at_start_); }

RealPool::RealPool(const Prepared& heap, Gpu& gpu, const CudaAsyncSettings& settings, std::optional<Bytes> capacity)
    : gpu_(gpu), blocks_(heap.slot_count + 1), pool_(gpu.create_pool(capacity, settings.release_threshold)) {
  gpu.set_pool_flag(pool_, PoolAttribute::follow_event_dependencies, settings.follow_events);
  gpu.set_pool_flag(pool_, PoolAttribute::allow_opportunistic, settings.opportunistic);
  gpu.set_pool_flag(pool_, PoolAttribute::allow_internal_dependencies, settings.internal_dependencies);
  for (const PoolStream& pool_stream : heap.pool_streams) {
    const auto [found, is_new] = streams_.try_emplace(pool_stream.stream);
    if (is_new) found->second = gpu.create_stream();
    stream_of_pool_stream_.push_back(found->second);
  }
}

RealPool::~RealPool() {
  for (const RealBlock& block : blocks_)
    if (block.pointer != 0) gpu_.free_async(block.pointer, {}, block.stream);
  gpu_.synchronize();
  for (const auto& [id, stream] : streams_)
    if (stream != nullptr) gpu_.destroy_stream(stream);
  if (pool_ != nullptr) gpu_.destroy_pool(pool_);
}

bool RealPool::allocate(std::uint32_t slot, Bytes size, std::uint32_t pool_stream) {
  size = std::max(size, 1_B);
  const auto pointer = gpu_.malloc_async(size, pool_, stream_of_pool_stream_[pool_stream]);
  ++calls_.malloc_async;
  measure();
  if (!pointer) return false;
  blocks_[slot] = {.pointer = *pointer, .stream = stream_of_pool_stream_[pool_stream], .size = size};
  return true;
}

void RealPool::free_requested(std::uint32_t slot, Bytes) {
  RealBlock& block = blocks_[slot];
  gpu_.free_async(block.pointer, block.size, block.stream);
  ++calls_.free_async;
  block = {};
  measure();
}

void RealPool::empty_cache() {
  gpu_.synchronize();
  gpu_.trim(pool_);
  ++calls_.sync;
  measure();
}

void RealPool::device_synchronized() {
  gpu_.synchronize();
  ++calls_.sync;
  measure();
}

void RealPool::stream_synchronized(std::uint32_t pool_stream) {
  gpu_.synchronize_stream(stream_of_pool_stream_[pool_stream]);
  ++calls_.sync;
  measure();
}

void RealPool::stream_waits(std::uint32_t awaited, std::uint32_t waiting) {
  gpu_.order(stream_of_pool_stream_[awaited], stream_of_pool_stream_[waiting]);
}

void RealPool::measure() {
  use_.reserved = gpu_.pool_bytes(pool_, PoolAttribute::reserved_current);
  use_.allocated = std::min(gpu_.pool_bytes(pool_, PoolAttribute::used_current), use_.reserved);
  use_.free = {};
}

}  // namespace memreel::gpu
