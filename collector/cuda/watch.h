// SPDX-License-Identifier: Apache-2.0
// The part that both backends share: decodes each call, tracks contexts and pools, and suspends sampling of whatever is
// being destroyed.
#pragma once

#include <array>
#include <atomic>

#include "collector/cuda/decoder.h"
#include "collector/cuda/sampler.h"
#include "collector/recorder/recorder.h"

namespace memreel::cuda {

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
