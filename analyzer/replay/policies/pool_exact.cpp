// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/policies/pool_exact.h"

#include "analyzer/replay/engine/engine.h"
#include "analyzer/replay/engine/parameters.h"
#include "analyzer/replay/policies/cuda_malloc.h"
#include "analyzer/replay/policies/torch_native.h"

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
                   .parameters = {{"behind", "torch.native", AllowedValues::one_of({"torch.native", "cuda.malloc"}),
                                   "the allocator that the pool takes memory from"}}},
          .bind = [](const PolicySpec& spec) -> Result<BoundPolicy> {
            if (spec.parameters.at("behind") == "cuda.malloc") return bound_to<CudaMalloc, CudaMalloc::Settings>(spec);
            return bound_to<TorchNative<>, TorchSettings>(spec);
          }};
}

}  // namespace memreel
