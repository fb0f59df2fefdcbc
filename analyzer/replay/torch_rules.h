// SPDX-License-Identifier: Apache-2.0
// The PyTorch release whose rules are used to replay a history.
#pragma once

#include <map>
#include <span>

#include "analyzer/replay/engine/parameters.h"
#include "analyzer/replay/engine/prepared.h"
#include "analyzer/replay/policies/torch_native.h"
#include "analyzer/replay/recorded_device.h"
#include "formats/model/result.h"
#include "formats/model/trace.h"
#include "formats/torch/settings.h"

namespace memreel {

// Specifics of PyTorch allocator histories.

/// Whether a heap is PyTorch's caching allocator of a device; not that of pinned host memory.
bool is_torch(const Trace& trace, const Prepared& heap);

bool is_torch(const Trace& trace, HeapId heap);
bool is_torch(const Tables& tables, HeapId heap);

/// Whether memreel recorded the trace: its data was observed from outside the allocators.
bool is_recording(const Trace& trace);
bool is_recording(const Header& header);

/// Whether all of these programs stated which release of PyTorch they ran on.
bool states_release(std::span<const Prepared> heaps);

/// Why a replay can't be expected to reproduce this heap's history, in one line; empty if it can. One that began late
/// can if what the heap held then is known (Prepared::initial).
std::string why_not_reproducible(const Trace& trace, const Prepared& heap);

struct TorchRules {
  TorchRelease release;
  bool told = false;  // stated by the history or the caller
  std::string text;   // "PyTorch 2.12, as stated by the snapshot"
};

/// "PyTorch 2.5 to 2.11": the releases with the same rules.
std::string torch_releases(TorchRelease release);

/// `settings`: of a PyTorch heap. `asked`: a release such as "2.12"; empty: the one stated by the history, else 2.11.
/// Errors: a release whose rules are unknown.
Result<TorchRules> torch_rules(const std::map<std::string, std::string>& settings, const std::string& asked);

/// The same for the first PyTorch heap among `heaps`; without text if there is none and no release was given.
Result<TorchRules> torch_rules(const Trace& trace, std::span<const Prepared> heaps, const std::string& asked);

/// Gives the rules to those policies that are PyTorch's, unless they name their own.
void set_torch_rules(std::span<PolicySpec> specs, const TorchRules& rules);

// PyTorch's allocator by the rules of the release that recorded a history.

/// Calls `run(policy, real)` with the policy that these settings select, on `device`. `real(address)`: the device's
/// address for one of the policy's.
template <class Observer = NoTorchObserver, class Run>
decltype(auto) with_torch(const Prepared& heap, const TorchSettings& settings, Device& device, Run run,
                          Observer observer = {}) {
  const auto same = [](Address address) { return address; };
  switch (settings.release.tie_break()) {
    case TorchRelease::TieBreak::block_counter: {
      TorchNative<Observer, OldestFirst> policy(heap, settings, device, std::move(observer));
      return run(policy, same);
    }
    case TorchRelease::TieBreak::segment_counter: {
      AscendingAddresses ascending(device);
      TorchNative<Observer> policy(heap, settings, ascending, std::move(observer));
      return run(policy, [&](Address address) { return ascending.real(address); });
    }
    case TorchRelease::TieBreak::address:
      break;
  }
  TorchNative<Observer> policy(heap, settings, device, std::move(observer));
  return run(policy, same);
}

}  // namespace memreel
