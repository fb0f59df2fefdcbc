// SPDX-License-Identifier: Apache-2.0
#include "analyzer/policies/pool_exact.h"

#include "analyzer/engine/engine.h"
#include "analyzer/policies/cuda_malloc.h"
#include "analyzer/policies/parameters.h"
#include "analyzer/policies/torch_native.h"

namespace memreel {
namespace {

template <class Behind, class Settings>
BoundPolicy bound_to(const PolicySpec& spec) {
  return {.spec = spec, .unit = CudaMalloc::page, .run = [](const Prepared& heap, const RunOptions& options) {
            return run_policy<ExactPool<Behind>>(heap, Settings{}, options);
          }};
}

}  // namespace

PolicyEntry pool_exact_entry() {
  return {.info = {.name = "pool.exact",
                   .description = "exact-size objects kept for reuse, in front of another allocator",
                   .defaults = {{"behind", "torch.native"}}},
          .bind = [](const PolicySpec& spec) -> Result<BoundPolicy> {
            const std::string& behind = spec.parameters.at("behind");
            if (behind == "torch.native") return bound_to<TorchNative<>, TorchSettings>(spec);
            if (behind == "cuda.malloc") return bound_to<CudaMalloc, CudaMalloc::Settings>(spec);
            return bad_parameter(spec, "behind", "torch.native or cuda.malloc");
          }};
}

}  // namespace memreel
