// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/policies/torch_native.h"

#include "analyzer/replay/engine/engine.h"
#include "analyzer/replay/policies/torch_spec.h"

namespace memreel {

template class TorchPools<LowestFirst>;
template class TorchPools<OldestFirst>;
template class TorchExpandable<LowestFirst>;
template class TorchExpandable<OldestFirst>;
template class TorchResume<TorchNative<NoTorchObserver, LowestFirst>>;
template class TorchResume<TorchNative<NoTorchObserver, OldestFirst>>;
template class TorchNative<NoTorchObserver, LowestFirst>;
template class TorchNative<NoTorchObserver, OldestFirst>;

namespace {

ReplayResult run(const Prepared& heap, TorchSettings settings, const RunOptions& given) {
  RunOptions options = given;
  if (given.device.kind == DeviceModel::Kind::capacity) settings.reserve.memory = given.device.capacity;
  // A share of the device's nominal memory. A capacity implied by recorded failures already accounts for that share.
  DeviceModel& model = options.device;
  if (settings.memory_fraction < 1 && model.kind == DeviceModel::Kind::capacity && !model.told) {
    model.capacity.count =
        static_cast<std::uint64_t>(settings.memory_fraction * static_cast<double>(model.capacity.count));
    model.told = true;
  }
  // Without a memory fraction, PyTorch collects no garbage.
  if (!model.told) settings.garbage_collection_threshold = 0;
  const TorchRelease::TieBreak tie_break = settings.release.tie_break();
  if (tie_break == TorchRelease::TieBreak::address) return run_policy<TorchNative<>>(heap, settings, options);
  if (tie_break == TorchRelease::TieBreak::block_counter)
    return run_policy<TorchNative<NoTorchObserver, OldestFirst>>(heap, settings, options);
  SimulatedDevice device(model, {}, options.backing, SimulatedDevice::Placing::ascending);
  TorchNative<> policy(heap, settings, device);
  ReplayResult result = Replay<TorchNative<>>(heap, policy, options).run();
  device.count_bytes(result.driver_calls);
  return result;
}

Result<BoundPolicy> bind(const PolicySpec& spec) {
  const auto settings = TorchSettings::parse(spec.parameters, spec.name);
  if (!settings) return settings.error();
  return BoundPolicy{.spec = {.name = spec.name, .parameters = settings->parameters()},
                     .unit = TorchSettings::small_segment,
                     .run = [settings = *settings](const Prepared& heap, const RunOptions& options) {
                       return run(heap, settings, options);
                     }};
}

}  // namespace

PolicyEntry torch_native_entry() {
  return {.info = {.name = "torch.native",
                   .description = "PyTorch's CUDA caching allocator",
                   .parameters = parameters_of(TorchSettings{})},
          .bind = bind,
          .normalize = without_neutral_keys};
}

PolicyEntry torch_expandable_entry() {
  return {.info = {.name = "torch.expandable",
                   .description = "torch.native with expandable segments",
                   .parameters = parameters_of(TorchSettings{.expandable = true})},
          .bind = bind,
          .normalize = without_neutral_keys};
}

PolicyEntry torch_entry() {
  PolicyEntry entry = torch_native_entry();
  entry.info.name = "torch";
  entry.info.description = "torch.native, with settings in the syntax of PYTORCH_CUDA_ALLOC_CONF";
  return entry;
}

}  // namespace memreel
