#include "analyzer/policies/bound_live.h"

namespace memreel {

PolicyEntry bound_live_entry() {
  return {.info = {.name = "bound.live",
                   .description = "lower bound: the bytes that are requested and not yet let go of",
                   .defaults = {},
                   .sub_allocates = false},
          .bind = [](const PolicySpec& spec) -> Result<BoundPolicy> {
            return BoundPolicy{.spec = spec, .unit = 1_B, .run = [](const Prepared& heap, const RunOptions& options) {
                                 return run_policy<BoundLive>(heap, BoundLive::Settings{}, options);
                               }};
          }};
}

}  // namespace memreel
