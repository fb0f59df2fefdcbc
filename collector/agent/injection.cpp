// The agent's external entry points.
#include <pthread.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>

#include "collector/agent/agent.h"
#include "collector/agent/control.h"
#include "collector/attach/bootstrap.h"
#include "collector/cuda/interposer.h"
#include "collector/cuda/real_driver.h"
#include "collector/nvtx/memory.h"
#include "collector/nvtx/ranges.h"

/// The driver did not call InitializeInjection(): another tool is configured, or none.
void memreel::cuda::interposer::driver_initialized() { memreel::agent::start(); }
void memreel::cuda::interposer::cupti_wanted(bool shares) { memreel::agent::cupti_wanted(shares); }

// NOLINTBEGIN(readability-identifier-naming): the names are those that CUDA and NVTX look for
extern "C" {

/// Called by the CUDA driver within cuInit if CUDA_INJECTION64_PATH names this library. Always returns 1 (success),
/// since a program that can't be recorded must still run.
[[gnu::visibility("default")]] int InitializeInjection() {
  memreel::agent::start();
  return 1;
}

/// Called by each copy of NVTX in the program, at its first call, if NVTX_INJECTION64_PATH names this library. Returns
/// 1 if it installed the tool.
[[gnu::visibility("default")]] int InitializeInjectionNvtx2(memreel::nvtx::GetExportTable get_table) {
  return memreel::nvtx::take_over(get_table) ? 1 : 0;
}

/// The same for each copy of NVTX's extensions. Returns 1 if it installed the tool.
[[gnu::visibility("default")]] int InitializeInjectionNvtxExtension(const memreel::nvtx::ExtensionInfo* info) {
  const auto current_device = [] {
    memreel::cuda::Device device = 0;
    return memreel::cuda::RealDriver::get().current_device(&device) == memreel::cuda::success ? device : -1;
  };
  if (info == nullptr) return 0;
  return memreel::nvtx::take_over_memory(*info, current_device) || memreel::nvtx::take_over_payloads(*info) ? 1 : 0;
}

/// For tools that enter the process later: starts recording into a new file. Returns 1 if recording, 0 if not; a
/// message on standard error says why.
[[gnu::visibility("default")]] int memreel_agent_start() { return memreel::agent::restart() ? 1 : 0; }

/// For the thread that the bootstrap started to load this library (collector/attach/bootstrap.h): waits for requests.
/// `page` is the bootstrap's code and data, `size` bytes.
[[gnu::visibility("default")]] void memreel_agent_visit(void* page, std::size_t size) {
  ::pthread_detach(::pthread_self());
  ::pthread_setname_np(::pthread_self(), "memreel-control");
  memreel::agent::control::visit([page, size] {
    const auto* const released = static_cast<const std::byte*>(page) + memreel::attach::Bootstrap::released_at;
    if (*reinterpret_cast<const volatile std::uint64_t*>(released) == 0) return false;
    return ::munmap(page, size) == 0;
  });
}

/// For Python programs that load this library through sys.remote_exec: the same in a separate thread.
[[gnu::visibility("default")]] void memreel_agent_invite() { memreel::agent::control::invite(); }

/// Completes the trace. Recording may begin again.
[[gnu::visibility("default")]] void memreel_agent_stop() { memreel::agent::stop("stopped"); }
}
// NOLINTEND(readability-identifier-naming)
