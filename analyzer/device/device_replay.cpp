// SPDX-License-Identifier: Apache-2.0
#include "analyzer/device/device_replay.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "analyzer/device/real_pools.h"
#include "analyzer/engine/engine.h"
#include "analyzer/policies/cuda_async.h"
#include "analyzer/policies/pool_chunks.h"
#include "analyzer/replay/capacity.h"
#include "analyzer/replay/registry.h"

namespace memreel::gpu {
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
