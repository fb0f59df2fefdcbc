// SPDX-License-Identifier: Apache-2.0
// The part that both backends share: decodes each call, tracks contexts and pools, and suspends sampling of whatever is
// being destroyed.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

#include "collector/cuda/decoder.h"
#include "collector/cuda/sampler.h"
#include "collector/recorder/recorder.h"

namespace memreel::cuda {

/// Every call that the decoder knows, and those that reveal contexts.
inline constexpr std::array watched_calls{
    Call::mem_alloc,
    Call::mem_alloc_pitch,
    Call::mem_alloc_managed,
    Call::mem_free,
    Call::mem_alloc_host,
    Call::mem_host_alloc,
    Call::mem_host_alloc_v2,
    Call::mem_free_host,
    Call::mem_host_register,
    Call::mem_host_register_v1,
    Call::mem_host_unregister,
    Call::array_create,
    Call::array_3d_create,
    Call::array_destroy,
    Call::mipmapped_array_create,
    Call::mipmapped_array_destroy,
    Call::mem_alloc_async,
    Call::mem_alloc_async_ptsz,
    Call::mem_alloc_from_pool_async,
    Call::mem_alloc_from_pool_async_ptsz,
    Call::mem_free_async,
    Call::mem_free_async_ptsz,
    Call::mem_pool_create,
    Call::mem_pool_destroy,
    Call::device_set_mem_pool,
    Call::device_get_mem_pool,
    Call::device_get_default_mem_pool,
    Call::mem_set_mem_pool,
    Call::mem_get_mem_pool,
    Call::mem_get_default_mem_pool,
    Call::mem_pool_import_from_shareable_handle,
    Call::mem_pool_import_pointer,
    Call::mem_address_reserve,
    Call::mem_address_free,
    Call::mem_create,
    Call::mem_release,
    Call::mem_map,
    Call::mem_unmap,
    Call::mem_import_from_shareable_handle,
    Call::mem_retain_allocation_handle,
    Call::external_memory_get_mapped_buffer,
    Call::ipc_open_mem_handle,
    Call::ipc_open_mem_handle_v2,
    Call::ipc_close_mem_handle,
    Call::graph_add_mem_alloc_node,
    Call::graph_add_mem_free_node,
    Call::graph_add_node,
    Call::graph_add_node_v2,
    Call::graph_add_node_v3,
    Call::ctx_destroy,
    Call::ctx_destroy_v2,
    Call::ctx_detach,
    Call::ctx_create_v2,
    Call::ctx_create_v3,
    Call::ctx_create_v4,
    Call::green_ctx_create,
    Call::ctx_from_green_ctx,
    Call::primary_ctx_retain,
    Call::primary_ctx_release,
    Call::primary_ctx_release_v1,
    Call::primary_ctx_reset,
    Call::primary_ctx_reset_v1,
};

/// One per process, never destroyed. The functions run on the threads that make the calls.
class Watch {
 public:
  /// `recorder`: called for each call; returns null while nothing is recorded.
  explicit Watch(agent::Recorder* (*recorder)()) : recorder_(recorder), sampler_(sampled_, recorder) {}
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  /// Returns the value to pass to exit() of the same call.
  std::uint64_t enter(const CallSite& site);
  void exit(const CallSite& site, Status status, std::uint64_t entered);

  /// The context's destruction begins. Ignored at program exit: what it then holds is memory that the program did not
  /// free.
  void context_gone(const void* context);

  /// After a time without a watch: finds the devices' active primary contexts and forgets those that are gone. Queries
  /// the driver: not from a callback.
  void look_around();

  /// From now on contexts are destroyed by program exit, not by choice.
  void program_ends() { program_ends_.store(true, std::memory_order_relaxed); }

  /// A known context, with the number that records use; none if unknown. A green context has no memory of its own and
  /// stands for its device's primary context (number 0 if that was never seen).
  std::optional<KnownObjects::Known> find_context(const void* context) const {
    const KnownObjects::Known known = sampled_.contexts.find(context);
    return known.number != 0 ? known : find_green(context);
  }
  /// Adds a context whose creation was not seen.
  KnownObjects::Known add_context(const void* context, std::int16_t device) {
    return sampled_.contexts.add(context, device);
  }

  Sampler& sampler() { return sampler_; }

 private:
  std::optional<KnownObjects::Known> find_green(const void* context) const;
  void finish(const CallSite& site, Status status, std::uint64_t entered);
  void learn(const CallSite& site);
  void learn_context(const void* context, Device device);
  std::int16_t device_of_stream(const CallSite& site) const;

  agent::Recorder* (*recorder_)();
  std::atomic<bool> program_ends_ = false;
  Sampled sampled_;
  std::array<std::atomic<const void*>, 64> primary_{};  // the devices' primary contexts, once seen
  KnownObjects greens_;                                 // CUgreenCtx, and the CUcontext of each
  Sampler sampler_;
};

}  // namespace memreel::cuda
