// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/device/real_pools.h"

#include <algorithm>
#include <array>

#include "analyzer/replay/engine/engine.h"
#include "analyzer/replay/policies/pool_chunks.h"
#include "analyzer/replay/recorded_device.h"
#include "analyzer/replay/registry.h"

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

namespace {

std::optional<Bytes> capacity_of(const DeviceModel& model) {
  if (model.kind == DeviceModel::Kind::capacity) return model.capacity;
  return std::nullopt;
}

/// Rounds down to whole chunks: the driver itself would round a pool's maximum up.
std::optional<Bytes> pool_capacity(const DeviceModel& model) {
  if (model.kind != DeviceModel::Kind::capacity) return std::nullopt;
  return PoolChunks::size * std::max<std::uint64_t>(model.capacity / PoolChunks::size, 1);
}

OnDeviceResult run_malloc(Gpu& gpu, const Prepared& heap, const RunOptions& options) {
  RealMalloc policy(heap, gpu, capacity_of(options.device));
  OnDeviceResult result{.replay = Replay<RealMalloc>(heap, policy, options).run()};
  result.device_peak = result.replay.peak_reserved;
  result.calls = gpu.tallies();
  return result;
}

OnDeviceResult run_pool(Gpu& gpu, const Prepared& heap, const CudaAsyncSettings& settings, const RunOptions& options) {
  RealPool policy(heap, gpu, settings, pool_capacity(options.device));
  OnDeviceResult result{.replay = Replay<RealPool>(heap, policy, options).run()};
  result.device_peak = policy.reserved_high();
  result.calls = gpu.tallies();
  return result;
}

Result<OnDeviceResult> run_placing(Gpu& gpu, const BoundPolicy& policy, const Prepared& heap, RunOptions options,
                                   SegmentsBy how) {
  if (policy.spec.name.starts_with("bound."))
    return Error{.what = policy.spec.name + " takes no memory, it only counts",
                 .remedy = "run cuda.malloc, cuda.async, or a policy that places blocks in segments"};
  RealMemory memory(gpu, how);
  options.backing = &memory;
  OnDeviceResult result{.replay = policy.run(heap, options)};
  if (memory.misaligned())
    return Error{.what = policy.spec.name + " maps memory at a granularity that the GPU does not support",
                 .remedy = "set pages to a multiple of 2MiB"};
  result.device_peak = memory.highest_taken();
  result.calls = gpu.tallies();
  return result;
}

Result<OnDeviceResult> run(Gpu& gpu, const BoundPolicy& policy, const Prepared& heap, const RunOptions& options,
                           SegmentsBy how) {
  if (policy.spec.name == "cuda.malloc") return run_malloc(gpu, heap, options);
  if (policy.spec.name != "cuda.async") return run_placing(gpu, policy, heap, options, how);
  return run_pool(gpu, heap, cuda_async_settings(policy.spec), options);
}

}  // namespace

Result<std::vector<OnDeviceResult>> replay_on_device(Gpu& gpu, std::span<const Prepared> heaps,
                                                     std::span<const PolicySpec> specs,
                                                     const OnDeviceOptions& options) {
  std::vector<OnDeviceResult> results;
  for (const PolicySpec& spec : specs) {
    const auto policy = bind_policy(spec);
    if (!policy) return policy.error();
    for (const Prepared& heap : heaps) {
      const RunOptions run_options{.device = options.device.value_or(implied_device(heap)),
                                   .series_points = options.series_points};
      gpu.reset_tallies();
      auto result = run(gpu, *policy, heap, run_options, options.segments_by);
      if (gpu.error()) return *gpu.error();
      if (!result) return std::move(result).error();
      result->replay.policy = policy->spec;
      results.push_back(*std::move(result));
    }
  }
  return results;
}

namespace {

constexpr Bytes small = 2_MiB, large = 512_MiB;
constexpr int repetitions = 21;

double seconds_of(auto&& call) {
  const auto start = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> times) {
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

struct Pair {
  double take = 0, give = 0;  // seconds
};

/// Median times of taking something and giving it back.
Pair measure(auto&& take, auto&& give) {
  std::vector<double> takes, gives;
  for (int i = 0; i < repetitions; ++i) {
    takes.push_back(seconds_of(take));
    gives.push_back(seconds_of(give));
  }
  return {median(takes), median(gives)};
}

/// The line through the costs of a small and a large piece.
UnitCost line(double at_small, double at_large) {
  const auto mebibytes = [](Bytes size) { return static_cast<double>(size / 1_MiB); };
  const double slope = std::max(0.0, (at_large - at_small) / (mebibytes(large) - mebibytes(small)));
  return {.fixed_seconds = std::max(0.0, at_small - slope * mebibytes(small)), .seconds_per_mib = slope};
}

Pair malloc_of(Gpu& gpu, Bytes size) {
  std::optional<DevicePointer> pointer;
  return measure([&] { pointer = gpu.malloc(size); }, [&] { gpu.free(pointer.value_or(0), size); });
}

Pair mapping_of(Gpu& gpu, Bytes size) {
  const auto address = gpu.reserve_addresses(size);
  if (!address) return {};
  const Pair pair = measure([&] { gpu.map_new(*address, size); }, [&] { gpu.unmap(*address, size); });
  gpu.free_addresses(*address, size);
  return pair;
}

Pair async_of(Gpu& gpu, Bytes size) {
  Pool pool = gpu.create_pool(std::nullopt, CudaAsyncSettings::never);
  Stream stream = gpu.create_stream();
  const auto kept = gpu.malloc_async(size, pool, stream);  // so that the pool need not grow
  gpu.free_async(kept.value_or(0), size, stream);
  std::optional<DevicePointer> pointer;
  const Pair pair = measure([&] { pointer = gpu.malloc_async(size, pool, stream); },
                            [&] { gpu.free_async(pointer.value_or(0), size, stream); });
  gpu.synchronize();
  gpu.destroy_stream(stream);
  gpu.destroy_pool(pool);
  return pair;
}

}  // namespace

UnitCosts measure_unit_costs(Gpu& gpu) {
  UnitCosts costs{.measured_on = gpu.name() + ", CUDA " + gpu.cuda_version()};
  malloc_of(gpu, small);  // the first calls pay for the driver's setup
  const std::array<Pair, 2> own{malloc_of(gpu, small), malloc_of(gpu, large)};
  costs[DriverCall::malloc] = line(own[0].take, own[1].take);
  costs[DriverCall::free] = line(own[0].give, own[1].give);
  if (const auto page = gpu.malloc(1_B)) {
    const Pair shared = malloc_of(gpu, 512_B);
    costs[DriverCall::malloc_shared].fixed_seconds = shared.take;
    costs[DriverCall::free_shared].fixed_seconds = shared.give;
    gpu.free(*page, 1_B);
  }
  const std::array<Pair, 2> mapped{mapping_of(gpu, small), mapping_of(gpu, large)};
  costs[DriverCall::map] = line(mapped[0].take, mapped[1].take);
  costs[DriverCall::unmap] = line(mapped[0].give, mapped[1].give);
  const Pair async = async_of(gpu, 1_MiB);
  costs[DriverCall::malloc_async].fixed_seconds = async.take;
  costs[DriverCall::free_async].fixed_seconds = async.give;
  costs[DriverCall::sync].fixed_seconds = measure([&] { gpu.synchronize(); }, [] {}).take;
  return costs;
}

}  // namespace memreel::gpu
