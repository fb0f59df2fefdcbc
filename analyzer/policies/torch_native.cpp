#include "analyzer/policies/torch_native.h"

namespace memreel {
namespace {

Result<BoundPolicy> bind(const PolicySpec& spec) {
  const auto settings = TorchSettings::parse(spec);
  if (!settings) return settings.error();
  return BoundPolicy{.spec = {.name = spec.name, .parameters = settings->spec().parameters},
                     .unit = TorchSettings::small_segment,
                     .run = [settings = *settings](const Prepared& heap, const RunOptions& options) {
                       return run_policy<TorchNative<>>(heap, settings, options);
                     }};
}

}  // namespace

PolicyEntry torch_native_entry() {
  return {.info = {.name = "torch.native",
                   .description = "PyTorch's CUDA caching allocator",
                   .defaults = TorchSettings{}.spec().parameters},
          .bind = bind};
}

PolicyEntry torch_expandable_entry() {
  return {.info = {.name = "torch.expandable",
                   .description = "torch.native with expandable segments",
                   .defaults = TorchSettings{.expandable = true}.spec().parameters},
          .bind = bind};
}

}  // namespace memreel
