// SPDX-License-Identifier: Apache-2.0
#include "collector/cuda/watch.h"

#include <dlfcn.h>

#include <algorithm>
#include <type_traits>

#include "collector/cuda/real_driver.h"

namespace memreel::cuda {
namespace {

/// Calls that may destroy what the sampler queries.
bool destroys(Call call) {
  switch (call) {
    case Call::cuCtxDestroy:
    case Call::cuCtxDestroy_v2:
    case Call::cuCtxDetach:
    case Call::cuDevicePrimaryCtxRelease_v2:
    case Call::cuDevicePrimaryCtxRelease:
    case Call::cuDevicePrimaryCtxReset_v2:
    case Call::cuDevicePrimaryCtxReset:
    case Call::cuMemPoolDestroy:
      return true;
    default:
      return false;
  }
}

void note_device(std::atomic<std::uint64_t>& devices, std::int16_t device) {
  const std::uint64_t bit = std::uint64_t{1} << (static_cast<unsigned>(device) & 63U);
  if ((devices.load(std::memory_order_relaxed) & bit) == 0) devices.fetch_or(bit, std::memory_order_relaxed);
}

bool names_no_pool(Call call) { return call == Call::cuMemAllocAsync || call == Call::cuMemAllocAsync_ptsz; }

/// Calls visit(context, device) for each device's active primary context. Creates none.
void for_each_primary(auto&& visit) {
  void* const library = ::dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY);
  if (library == nullptr) return;
  const auto find = [library](const char* name, auto& function) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
    return function != nullptr;
  };
  Status (*count_devices)(int*) = nullptr;
  Status (*primary_state)(Device, unsigned*, int*) = nullptr;
  Status (*retain)(void**, Device) = nullptr;
  Status (*release)(Device) = nullptr;
  int devices = 0;
  const bool found = find("cuDeviceGetCount", count_devices) && find("cuDevicePrimaryCtxGetState", primary_state) &&
                     find("cuDevicePrimaryCtxRetain", retain) && find("cuDevicePrimaryCtxRelease_v2", release);
  if (!found || count_devices(&devices) != success) return;
  for (Device device = 0; device < devices; ++device) {
    unsigned flags = 0;
    int active = 0;
    void* context = nullptr;
    // It is alive, so retain and release only count.
    if (primary_state(device, &flags, &active) != success || active == 0) continue;
    if (retain(&context, device) != success) continue;
    release(device);
    visit(context, device);
  }
}

}  // namespace

std::uint64_t Watch::enter(const CallSite& site) {
  if (destroys(site.call)) {
    sampler_.suspend();
    if (site.call == Call::cuMemPoolDestroy) {
      const void* const pool = of<Call::cuMemPoolDestroy>(site).pool;
      sampled_.pools.remove(sampled_.pools.find(pool).number);
    }
  }
  agent::Recorder* const recorder = recorder_();
  return recorder != nullptr ? Decoder(*recorder).enter(site) : 0;
}

void Watch::exit(const CallSite& site, Status status, std::uint64_t entered) {
  if (destroys(site.call)) sampler_.resume();
  if (!sampled_.contexts.on_several_devices() || !names_no_pool(site.call)) return finish(site, status, entered);
  CallSite placed = site;
  placed.context.device = device_of_stream(site);
  finish(placed, status, entered);
}

void Watch::finish(const CallSite& site, Status status, std::uint64_t entered) {
  if (status == success) learn(site);
  if (agent::Recorder* const recorder = recorder_()) Decoder(*recorder).exit(site, status, entered);
}

std::optional<KnownObjects::Known> Watch::find_green(const void* context) const {
  const KnownObjects::Known green = greens_.find(context);
  if (green.number == 0) return std::nullopt;
  const auto device = static_cast<std::size_t>(green.device);
  const void* const primary = device < primary_.size() ? primary_[device].load(std::memory_order_relaxed) : nullptr;
  return KnownObjects::Known{.number = sampled_.contexts.find(primary).number, .device = green.device};
}

/// For a request that names no pool: it is served by its stream's device, whatever context is current (cuda.h,
/// cuMemAllocAsync).
std::int16_t Watch::device_of_stream(const CallSite& site) const {
  constexpr std::uintptr_t per_thread_default = 2;  // CU_STREAM_PER_THREAD; 1 and 0 are of the current context, too
  const std::int16_t current = site.context.device;
  auto* const stream = of<Call::cuMemAllocAsync>(site).stream;
  if (reinterpret_cast<std::uintptr_t>(stream) <= per_thread_default) return current;
  const RealDriver& driver = RealDriver::get();
  if (const auto device = driver.device_of_stream(stream)) return static_cast<std::int16_t>(*device);
  const auto context = find_context(driver.context_of_stream(stream));
  return context ? context->device : current;
}

void Watch::learn_context(const void* context, Device device) {
  if (sampled_.contexts.find(context).number != 0) return;
  const KnownObjects::Known known = add_context(context, static_cast<std::int16_t>(device));
  if (agent::Recorder* const recorder = recorder_()) Decoder(*recorder).context_created(known);
  sampler_.wake();
}

/// Learns the devices of contexts and pools.
void Watch::learn(const CallSite& site) {
  const auto context = [&](const auto& p) { learn_context(*p.context, p.device); };
  const auto node = [&](const GraphNode* added) {
    if (added != nullptr && added->type == mem_alloc_node)
      note_device(sampled_.graphs, added->alloc.pool.location.device_or(site.context.device));
  };
  switch (site.call) {
    case Call::cuDevicePrimaryCtxRetain: {
      const auto& p = of<Call::cuDevicePrimaryCtxRetain>(site);
      const auto device = static_cast<std::size_t>(p.device);
      if (device < primary_.size()) primary_[device].store(*p.context, std::memory_order_relaxed);
      return context(p);
    }
    case Call::cuCtxCreate_v2:
      return context(of<Call::cuCtxCreate_v2>(site));
    case Call::cuCtxCreate_v3:
      return context(of<Call::cuCtxCreate_v3>(site));
    case Call::cuCtxCreate_v4:
      return context(of<Call::cuCtxCreate_v4>(site));
    case Call::cuGreenCtxCreate: {
      const auto& p = of<Call::cuGreenCtxCreate>(site);
      return greens_.put(*p.context, static_cast<std::int16_t>(p.device));
    }
    case Call::cuCtxFromGreenCtx: {
      const auto& p = of<Call::cuCtxFromGreenCtx>(site);
      if (const auto green = greens_.find(p.green); green.number != 0) greens_.put(*p.context, green.device);
      return;
    }
    case Call::cuMemPoolCreate: {
      const auto& p = of<Call::cuMemPoolCreate>(site);
      if (p.properties != nullptr) sampled_.pools.put(*p.pool, p.properties->location.device_or(site.context.device));
      return;
    }
    case Call::cuMemGetMemPool:
    case Call::cuMemGetDefaultMemPool: {
      // A device's default pool of its own memory is sampled in any case.
      const auto& p = of<Call::cuMemGetMemPool>(site);
      if (p.location->type != Location::device || p.allocation_type != pinned_memory)
        sampled_.pools.put(*p.pool, p.location->device_or(site.context.device));
      return;
    }
    case Call::cuMemAllocAsync:
    case Call::cuMemAllocAsync_ptsz:
      return note_device(site.captured ? sampled_.graphs : sampled_.ordered, site.context.device);
    case Call::cuMemAllocFromPoolAsync:
    case Call::cuMemAllocFromPoolAsync_ptsz:
      if (site.captured) note_device(sampled_.graphs, site.context.device);
      return;
    case Call::cuGraphAddMemAllocNode:
      return note_device(sampled_.graphs, of<Call::cuGraphAddMemAllocNode>(site).parameters->pool.location.device_or(
                                              site.context.device));
    case Call::cuGraphAddNode:
      return node(of<Call::cuGraphAddNode>(site).parameters);
    case Call::cuGraphAddNode_v2:
    case Call::cuGraphAddNode_v3:
      return node(of<Call::cuGraphAddNode_v2>(site).parameters);
    default:
      return;
  }
}

void Watch::look_around() {
  std::vector<std::pair<const void*, Device>> alive;
  for_each_primary([&](const void* context, Device device) { alive.emplace_back(context, device); });
  // Objects known from an earlier recording may be gone.
  const auto forget = [](KnownObjects& objects, const auto& is_there) {
    objects.for_each([&](const void* object, std::int16_t) {
      if (!is_there(object)) objects.remove(objects.find(object).number);
    });
  };
  forget(sampled_.contexts, [&](const void* context) {
    return std::ranges::find(alive, context, &std::pair<const void*, Device>::first) != alive.end();
  });
  forget(sampled_.pools, [](const void*) { return false; });
  for (const auto& [context, device] : alive) {
    add_context(context, static_cast<std::int16_t>(device));
    if (static_cast<std::size_t>(device) < primary_.size()) primary_[static_cast<std::size_t>(device)] = context;
  }
}

void Watch::context_gone(const void* context) {
  const KnownObjects::Known known = sampled_.contexts.find(context);
  if (known.number == 0) return;
  sampled_.contexts.remove(known.number);
  agent::Recorder* const recorder = recorder_();
  if (recorder != nullptr && !program_ends_.load(std::memory_order_relaxed))
    Decoder(*recorder).context_destroyed(known);
}

}  // namespace memreel::cuda
