// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/replay.h"

#include <algorithm>
#include <atomic>
#include <iterator>

#include "analyzer/replay/beginning.h"
#include "analyzer/replay/engine/parallel.h"
#include "analyzer/replay/least_capacity.h"
#include "analyzer/replay/recorded_device.h"
#include "analyzer/replay/registry.h"
#include "analyzer/replay/shared_device.h"

namespace memreel {

double UnitCosts::seconds(const DriverCalls& calls) const {
  const auto cost = [&](DriverCall kind, std::uint64_t count, Bytes bytes = {}) {
    const UnitCost& unit = (*this)[kind];
    const double mebibytes = static_cast<double>(bytes.count) / static_cast<double>((1_MiB).count);
    return unit.fixed_seconds * static_cast<double>(count) + unit.seconds_per_mib * mebibytes;
  };
  return cost(DriverCall::malloc, calls.malloc - calls.malloc_shared, calls.malloc_bytes) +
         cost(DriverCall::free, calls.free - calls.free_shared, calls.free_bytes) +
         cost(DriverCall::malloc_shared, calls.malloc_shared) + cost(DriverCall::free_shared, calls.free_shared) +
         cost(DriverCall::malloc_async, calls.malloc_async) + cost(DriverCall::free_async, calls.free_async) +
         cost(DriverCall::map, calls.map, calls.map_bytes) + cost(DriverCall::unmap, calls.unmap, calls.unmap_bytes) +
         cost(DriverCall::sync, calls.sync);
}

UnitCosts UnitCosts::of_h200() {
  UnitCosts costs{.measured_on = "NVIDIA H200, CUDA 13.0"};
  costs[DriverCall::malloc] = {.fixed_seconds = 28.681e-6, .seconds_per_mib = 0.0511e-6};
  costs[DriverCall::free] = {.fixed_seconds = 24.655e-6, .seconds_per_mib = 0.2649e-6};
  costs[DriverCall::malloc_shared] = {.fixed_seconds = 1.438e-6};
  costs[DriverCall::free_shared] = {.fixed_seconds = 1.231e-6};
  costs[DriverCall::malloc_async] = {.fixed_seconds = 0.335e-6};
  costs[DriverCall::free_async] = {.fixed_seconds = 0.444e-6};
  costs[DriverCall::map] = {.fixed_seconds = 25.840e-6, .seconds_per_mib = 0.0596e-6};
  costs[DriverCall::unmap] = {.fixed_seconds = 20.532e-6, .seconds_per_mib = 0.2699e-6};
  costs[DriverCall::sync] = {.fixed_seconds = 0.391e-6};
  return costs;
}

std::uint64_t count_of(const DriverCalls& calls) {
  return calls.malloc + calls.free + calls.map + calls.unmap + calls.malloc_async + calls.free_async;
}

namespace {

struct Job {
  const BoundPolicy* policy = nullptr;
  HeapRows on;
};

bool is_late(const ReplayOptions& options) { return std::chrono::steady_clock::now() > options.deadline; }

DeviceModel capacity_of(Bytes capacity) { return {.kind = DeviceModel::Kind::capacity, .capacity = capacity}; }

/// None if no capacity is enough, or if there is no time left to find it.
std::optional<Bytes> min_capacity(const Job& job, const ReplayOptions& options) {
  const BoundPolicy& policy = *job.policy;
  const Prepared& heap = *job.on.heap;
  if (is_late(options)) return std::nullopt;
  RunOptions to_failure{.stop_at_failure = true, .deadline = options.deadline, .rows = job.on.rows};
  const ReplayResult free = policy.run(heap, to_failure);
  if (free.failed_allocations > 0 || free.unfinished) return std::nullopt;
  return least_capacity({.unit = policy.unit, .peak_live = free.peak_live, .peak_reserved = free.peak_reserved},
                        [&](Bytes capacity) {
                          to_failure.device = capacity_of(capacity);
                          return attempt_of(policy.run(heap, to_failure));
                        });
}

ReplayResult run(const Job& job, const ReplayOptions& options) {
  if (is_late(options)) return {};
  const RunOptions run_options{.device = options.device.value_or(implied_device(*job.on.heap)),
                               .series_points = options.series_points,
                               .deadline = options.deadline,
                               .placement_metrics = options.placement_metrics,
                               .rows = job.on.rows};
  ReplayResult result = job.policy->run(*job.on.heap, run_options);
  if (result.unfinished) return {};
  result.policy = job.policy->spec;
  if (options.find_min_capacity && !result.defect) result.min_capacity = min_capacity(job, options);
  return result;
}

Result<void> check(const Job& job, const ReplayOptions& options) {
  const PolicyEntry* const known = find_policy(job.policy->spec.name);
  if (known && known->info.needs_whole_trace && options.rows != nullptr)
    return Error{.what = "policy " + job.policy->spec.name + " needs the whole trace in memory, and it is streamed",
                 .remedy = "leave this policy out, or replay a shorter trace"};
  if (known && known->info.host_memory && job.on.heap->device >= 0)
    return Error{.what = "policy " + job.policy->spec.name + " is for pinned host memory, but this heap is a device's",
                 .remedy = "replay a snapshot with record_pinned_host_memory=True, or use torch.native"};
  if ((known && !known->info.sub_allocates) || job.on.heap->level != Level::driver || !job.on.heap->pooled) return {};
  return Error{.what = "policy " + job.policy->spec.name +
                       " sub-allocates, and so did the program on what this driver-level heap gave it: replaying its "
                       "segments as if they were requests is meaningless",
               .remedy = "replay the framework-level heap, or record the program's pools (PyTorch memory history)"};
}

/// The policies and, for each, the heaps as it begins with them.
struct Jobs {
  std::vector<BoundPolicy> policies;
  std::vector<BegunHeap> heaps;
  std::vector<Job> all;  // by policy, then heap; they refer to the others

  std::span<const Job> of_policy(std::size_t policy) const {
    return std::span(all).subspan(policy * heaps.size(), heaps.size());
  }
};

Result<Jobs> jobs_of(std::span<const Prepared> heaps, std::span<const PolicySpec> specs, const ReplayOptions& options) {
  Jobs jobs;
  for (const PolicySpec& spec : specs) {
    auto policy = bind_policy(spec);
    if (!policy) return std::move(policy).error();
    jobs.policies.push_back(*std::move(policy));
  }
  for (const Prepared& heap : heaps) jobs.heaps.emplace_back(heap, options.rows);
  for (const BoundPolicy& policy : jobs.policies) {
    for (std::size_t h = 0; h < heaps.size(); ++h) {
      if (auto fine = check({.policy = &policy, .on = {.heap = &heaps[h]}}, options); !fine)
        return std::move(fine).error();
      jobs.all.push_back({.policy = &policy, .on = jobs.heaps[h].for_policy(policy)});
    }
  }
  return jobs;
}

Error too_little_memory() {
  return {.what = "not enough host memory for the replay", .remedy = "allow more with --max-memory"};
}

/// One policy on the heaps of one device.
struct DeviceJob {
  std::int32_t device = 0;
  const BoundPolicy* policy = nullptr;
  std::vector<Job> all;         // in the given order
  std::vector<bool> is_inside;  // whether each has its memory from another
  std::span<const HeldFrom> beside;

  std::vector<Job> outer() const {
    std::vector<Job> jobs;
    for (std::size_t i = 0; i < all.size(); ++i)
      if (!is_inside[i]) jobs.push_back(all[i]);
    return jobs;
  }
};

/// By device.
std::vector<DeviceJob> device_jobs(std::span<const Job> jobs, const Surroundings& surroundings) {
  std::map<std::int32_t, DeviceJob> devices;
  for (const Job& job : jobs) {
    const Prepared& heap = *job.on.heap;
    DeviceJob& of = devices.try_emplace(heap.device).first->second;
    of.device = heap.device;
    of.policy = job.policy;
    of.all.push_back(job);
    of.is_inside.push_back(std::ranges::find(surroundings.inside, heap.heap) != surroundings.inside.end());
    if (const auto beside = surroundings.beside.find(heap.device); beside != surroundings.beside.end())
      of.beside = beside->second;
  }
  std::vector<DeviceJob> result;
  for (auto& entry : devices) result.push_back(std::move(entry.second));
  return result;
}

/// Each heap on its own, with what the peaks of all else leave.
void run_alone(std::span<const Job> jobs, std::span<const HeldFrom> held_beside, const ReplayOptions& options,
               DeviceReplay& result) {
  Bytes beside;
  for (const HeldFrom& from : held_beside) beside = std::max(beside, from.held);
  result.beside_at_peak = result.peak_reserved = beside;
  Bytes min_capacity = beside;
  bool has_min_capacity = true;
  for (const Job& job : jobs) {
    ReplayOptions left = options;
    if (left.device && left.device->kind == DeviceModel::Kind::capacity)
      left.device->capacity = left.device->capacity - std::min(left.device->capacity, result.peak_reserved);
    result.heaps.push_back(run(job, left));
    const ReplayResult& r = result.heaps.back();
    if (jobs.size() == 1) result.peak_event = r.peak_reserved_event;
    result.peak_reserved += r.peak_reserved;
    result.failed_allocations += r.failed_allocations;
    has_min_capacity &= r.min_capacity.has_value();
    min_capacity += r.min_capacity.value_or(0_B);
  }
  if (options.find_min_capacity && has_min_capacity) result.min_capacity = min_capacity;
}

DeviceReplay run(const DeviceJob& of, const ReplayOptions& options) {
  const BoundPolicy& policy = *of.policy;
  const std::vector<Job> jobs = of.outer();
  DeviceReplay result{.policy = policy.spec, .device = of.device, .heaps = {}};
  const PolicyEntry* const known = find_policy(policy.spec.name);
  const bool is_alone = jobs.size() < 2 && of.beside.empty();
  if (is_alone || options.rows != nullptr || (known != nullptr && known->info.needs_whole_trace)) {
    run_alone(jobs, of.beside, options, result);
  } else if (is_late(options)) {
    result.heaps.resize(jobs.size());
  } else {
    std::vector<const Prepared*> shared_heaps;
    for (const Job& job : jobs) shared_heaps.push_back(job.on.heap);
    const SharedDevice device(std::move(shared_heaps), of.beside);
    SharedReplay shared = device.replay(policy, options.device,
                                        {.series_points = options.series_points,
                                         .deadline = options.deadline,
                                         .placement_metrics = options.placement_metrics});
    result.peak_reserved = shared.peak_reserved;
    result.peak_event = shared.peak_event;
    result.beside_at_peak = shared.beside_at_peak;
    result.failed_allocations = shared.failed_allocations;
    result.heaps = std::move(shared.heaps);
    if (shared.unfinished) result.heaps.assign(jobs.size(), {});
    if (options.find_min_capacity && !shared.unfinished)
      result.min_capacity = device.min_capacity(policy, options.deadline);
  }
  Bytes most;
  for (const ReplayResult& heap : result.heaps) {
    if (heap.peak_reserved < most) continue;
    most = heap.peak_reserved;
    result.fragmentation_at_peak = heap.fragmentation_at_peak;
  }
  // Heaps inside others ask those for memory, not the device.
  ReplayOptions without_limit = options;
  without_limit.device = DeviceModel{};
  std::vector<ReplayResult> heaps;
  auto outer = result.heaps.begin();
  for (std::size_t i = 0; i < of.all.size(); ++i)
    heaps.push_back(of.is_inside[i] ? run(of.all[i], without_limit) : std::move(*outer++));
  result.heaps = std::move(heaps);
  if (std::ranges::any_of(result.heaps, [](const ReplayResult& heap) { return heap.policy.name.empty(); }))
    result.policy = {};
  return result;
}

}  // namespace

Result<std::vector<ReplayResult>> replay(std::span<const Prepared> heaps, std::span<const PolicySpec> specs,
                                         const ReplayOptions& options) {
  const Result<Jobs> jobs = jobs_of(heaps, specs, options);
  if (!jobs) return jobs.error();
  std::vector<ReplayResult> results(jobs->all.size());
  std::atomic<std::uint64_t> done = 0;
  const bool enough_memory = in_parallel(results.size(), options.threads, [&](std::size_t i) {
    results[i] = run(jobs->all[i], options);
    if (options.on_progress) options.on_progress(++done, results.size());
  });
  if (!enough_memory) return too_little_memory();
  for (ReplayResult& result : results)
    if (result.defect) return *std::move(result.defect);
  return results;
}

Surroundings surroundings_of(const Trace& trace, std::span<const DeviceMemory> devices,
                             std::span<const Prepared> heaps) {
  Surroundings around;
  std::vector<HeapId> replayed;
  for (const Prepared& heap : heaps) replayed.push_back(heap.heap);
  const auto is_replayed = [&](HeapId heap) { return std::ranges::find(replayed, heap) != replayed.end(); };
  bool is_all = true;
  for (const DeviceMemory& device : devices)
    for (const DeviceHeap& heap : device.heaps) {
      is_all &= is_replayed(heap.heap);
      if (!heap.is_inside || !is_replayed(heap.heap)) continue;
      HeapId at = trace.tables[heap.heap].parent;
      for (std::size_t steps = 0; at != HeapId::none && steps < trace.tables.heaps.size(); ++steps) {
        if (is_replayed(at) && trace.tables[at].level == Level::framework) {
          around.inside.push_back(heap.heap);
          break;
        }
        at = trace.tables[at].parent;
      }
    }
  if (!is_all) around.beside = held_beside(trace, replayed);
  std::erase_if(around.beside, [](const auto& of) { return of.second.empty(); });
  return around;
}

Result<std::vector<DeviceReplay>> replay_devices(std::span<const Prepared> heaps, std::span<const PolicySpec> specs,
                                                 const ReplayOptions& options, const Surroundings& surroundings) {
  const Result<Jobs> jobs = jobs_of(heaps, specs, options);
  if (!jobs) return jobs.error();
  std::vector<DeviceJob> devices;
  for (std::size_t policy = 0; policy < jobs->policies.size(); ++policy)
    std::ranges::move(device_jobs(jobs->of_policy(policy), surroundings), std::back_inserter(devices));
  std::vector<DeviceReplay> results(devices.size());
  std::atomic<std::uint64_t> done = 0;
  const bool enough_memory = in_parallel(results.size(), options.threads, [&](std::size_t i) {
    results[i] = run(devices[i], options);
    if (options.on_progress) options.on_progress(++done, results.size());
  });
  if (!enough_memory) return too_little_memory();
  for (DeviceReplay& device : results)
    for (ReplayResult& result : device.heaps)
      if (result.defect) return *std::move(result.defect);
  return results;
}

}  // namespace memreel
