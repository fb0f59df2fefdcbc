#include "analyzer/policies/torch_native.h"

namespace memreel {

PolicyEntry torch_native_entry() {
  return {.info = {.name = "torch.native",
                   .description = "PyTorch's CUDA caching allocator",
                   .defaults = TorchSettings{}.spec().parameters},
          .bind = [](const PolicySpec& spec) -> Result<BoundPolicy> {
            const auto settings = TorchSettings::parse(spec);
            if (!settings) return settings.error();
            return BoundPolicy{.spec = settings->spec(),
                               .unit = TorchSettings::small_segment,
                               .run = [settings = *settings](const Prepared& heap, const RunOptions& options) {
                                 return run_policy<TorchNative<>>(heap, settings, options);
                               }};
          }};
}

}  // namespace memreel
