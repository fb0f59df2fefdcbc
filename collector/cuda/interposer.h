// SPDX-License-Identifier: Apache-2.0
// Driver calls intercepted by the agent's own symbols, which precede the driver's when the agent is preloaded. For
// programs in which another tool holds CUPTI.
//
// A program reaches the driver's functions in three ways, and finds ours in each: it links against libcuda, looks them
// up with dlsym, or calls cuGetProcAddress, itself found in one of the other ways. The runtime, statically linked or
// not, and PyTorch use the last. Not seen: functions from cuGetExportTable, with which no known program allocates.
#pragma once

#include <atomic>

#include "collector/cuda/real_driver.h"
#include "collector/cuda/watch.h"

namespace memreel::cuda::interposer {

// One interposed driver call: from our symbol to the driver's, through the watch.

inline std::atomic<Watch*> watch = nullptr;  // NOLINT: calls come without any context

/// The driver's function behind each of our symbols, once known.
template <Call call>
inline constinit std::atomic<void*> real_of = nullptr;  // NOLINT

/// What a call needs besides its parameters.
inline KnownObjects::Known current_context(Watch& watching) {
  void* context = nullptr;
  if (RealDriver::get().current_context(&context) != success || context == nullptr) return {};
  if (const auto known = watching.find_context(context)) return *known;
  Device device = 0;
  if (RealDriver::get().current_device(&device) != success) return {};
  return watching.add_context(context, static_cast<std::int16_t>(device));
}

template <class Params>
bool is_captured(Call call, const Params& parameters) {
  if constexpr (requires { parameters.stream; }) {
    const bool own_default = call == Call::cuMemAllocAsync_ptsz || call == Call::cuMemAllocFromPoolAsync_ptsz ||
                             call == Call::cuMemFreeAsync_ptsz;
    return RealDriver::get().is_capturing(parameters.stream, own_default);
  } else {
    return false;
  }
}

/// A call that may destroy a context has done so by its end, so the context is looked up before.
template <class Params>
const void* may_be_destroyed(const Params& parameters) {
  if constexpr (requires { parameters.device; })
    return RealDriver::get().active_primary(parameters.device);
  else
    return nullptr;
}

template <Call call, class... Arguments>
Status observed(Watch& watching, Status (*real)(Arguments...), Arguments... arguments) {
  const Parameters<call> parameters{arguments...};
  CallSite site{.call = call, .parameters = &parameters, .context = current_context(watching)};
  constexpr bool releases = call == Call::cuDevicePrimaryCtxRelease_v2 || call == Call::cuDevicePrimaryCtxRelease ||
                            call == Call::cuDevicePrimaryCtxReset_v2 || call == Call::cuDevicePrimaryCtxReset;
  const void* const primary = releases ? may_be_destroyed(parameters) : nullptr;
  if constexpr (call == Call::cuCtxDestroy || call == Call::cuCtxDestroy_v2) watching.context_gone(parameters.context);
  const std::uint64_t entered = watching.enter(site);
  site.captured = is_captured(call, parameters);
  const Status status = real(arguments...);
  if (status == success && primary != nullptr) {
    const bool reset = call == Call::cuDevicePrimaryCtxReset_v2 || call == Call::cuDevicePrimaryCtxReset;
    if (reset || may_be_destroyed(parameters) == nullptr) watching.context_gone(primary);
  }
  watching.exit(site, status, entered);
  return status;
}

/// The program's call: passed to the driver, through the watch.
template <Call call, class... Arguments>
Status pass(const char* symbol, Arguments... arguments) {
  using Function = Status (*)(Arguments...);
  auto real = reinterpret_cast<Function>(real_of<call>.load(std::memory_order_acquire));
  if (real == nullptr) {
    void* const found = RealDriver::find(symbol);
    if (found == nullptr) return not_found;
    real_of<call>.store(found, std::memory_order_release);
    real = reinterpret_cast<Function>(found);
  }
  if (Watch* const watching = watch.load(std::memory_order_acquire))
    return observed<call>(*watching, real, arguments...);
  return real(arguments...);
}

/// Whether the program's calls come through here. Until begin() they are only passed on.
bool preloaded();

/// Reports calls to `watch` from now on. It must stay alive.
void begin(Watch& watch);
void end();

/// Defined by the linking library: the program has initialized the driver through a preloaded cuInit.
void driver_initialized();
/// Likewise: a component of the program is about to subscribe to CUPTI; `shares`: it would share it.
void cupti_wanted(bool shares);

}  // namespace memreel::cuda::interposer
