#include "collector/cuda/watch.h"

#include <dlfcn.h>

#include <algorithm>
#include <type_traits>
#include <utility>
#include <vector>

namespace memreel::cuda {
namespace {

/// Calls that may destroy what the sampler asks about.
bool destroys(Call call) {
  switch (call) {
    case Call::ctx_destroy:
    case Call::ctx_destroy_v2:
    case Call::ctx_detach:
    case Call::primary_ctx_release:
    case Call::primary_ctx_release_v1:
    case Call::primary_ctx_reset:
    case Call::primary_ctx_reset_v1:
    case Call::mem_pool_destroy:
      return true;
    default:
      return false;
  }
}

/// visit(context, device) for each device's primary context that is alive. Makes none.
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
    // It is alive, so that to retain and release it only counts.
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
    if (site.call == Call::mem_pool_destroy) {
      const void* const pool = static_cast<const params::MemPoolDestroy*>(site.parameters)->pool;
      sampled_.pools.remove(sampled_.pools.find(pool).number);
    }
  }
  agent::Recorder* const recorder = recorder_();
  return recorder != nullptr ? Decoder(*recorder).enter(site) : 0;
}

void Watch::exit(const CallSite& site, Status status, std::uint64_t entered) {
  if (destroys(site.call)) sampler_.resume();
  if (status == success) learn(site);
  if (agent::Recorder* const recorder = recorder_()) Decoder(*recorder).exit(site, status, entered);
}

/// Which device contexts and pools are on.
void Watch::learn(const CallSite& site) {
  const auto context = [&](const auto& p) {
    if (sampled_.contexts.find(*p.context).number != 0) return;
    const KnownObjects::Known known = sampled_.contexts.add(*p.context, static_cast<std::int16_t>(p.device));
    if (agent::Recorder* const recorder = recorder_()) Decoder(*recorder).context_created(known);
    sampler_.wake();
  };
  switch (site.call) {
    case Call::primary_ctx_retain:
      return context(*static_cast<const params::PrimaryCtxRetain*>(site.parameters));
    case Call::ctx_create_v2:
      return context(*static_cast<const params::CtxCreateV2*>(site.parameters));
    case Call::ctx_create_v3:
      return context(*static_cast<const params::CtxCreateV3*>(site.parameters));
    case Call::ctx_create_v4:
      return context(*static_cast<const params::CtxCreateV4*>(site.parameters));
    case Call::mem_pool_create: {
      const auto& p = *static_cast<const params::MemPoolCreate*>(site.parameters);
      if (p.properties != nullptr && p.properties->location.type == device_location)
        sampled_.pools.add(*p.pool, static_cast<std::int16_t>(p.properties->location.id));
      return;
    }
    case Call::mem_alloc_async:
    case Call::mem_alloc_async_ptsz: {
      const std::uint64_t bit = std::uint64_t{1} << (static_cast<unsigned>(site.context.device) & 63U);
      if ((sampled_.ordered.load(std::memory_order_relaxed) & bit) == 0)
        sampled_.ordered.fetch_or(bit, std::memory_order_relaxed);
      return;
    }
    default:
      return;
  }
}

void Watch::look_around() {
  std::vector<std::pair<const void*, Device>> alive;
  for_each_primary([&](const void* context, Device device) { alive.emplace_back(context, device); });
  // What was known from an earlier recording may be gone since.
  const auto forget = [](KnownObjects& objects, const auto& is_there) {
    objects.for_each([&](const void* object, std::int16_t) {
      if (!is_there(object)) objects.remove(objects.find(object).number);
    });
  };
  forget(sampled_.contexts, [&](const void* context) {
    return std::ranges::find(alive, context, &std::pair<const void*, Device>::first) != alive.end();
  });
  forget(sampled_.pools, [](const void*) { return false; });
  for (const auto& [context, device] : alive) sampled_.contexts.add(context, static_cast<std::int16_t>(device));
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
