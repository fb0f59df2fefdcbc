#include "analyzer/device/on_device.h"

#include <algorithm>
#include <utility>

#include "analyzer/device/real_pools.h"
#include "analyzer/engine/engine.h"
#include "analyzer/policies/pool_chunks.h"
#include "analyzer/replay/implied_capacity.h"
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
  const auto settings = cuda_async_settings(policy.spec);
  if (!settings) return settings.error();
  return run_pool(gpu, heap, *settings, options);
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

}  // namespace memreel::gpu
