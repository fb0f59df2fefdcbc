// PyTorch's allocator by the rules of the release that recorded a history.
#pragma once

#include <utility>

#include "analyzer/policies/torch_native.h"
#include "analyzer/replay/ascending_addresses.h"

namespace memreel {

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
