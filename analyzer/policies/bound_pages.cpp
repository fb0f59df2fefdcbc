#include "analyzer/policies/bound_pages.h"

#include "analyzer/engine/engine.h"
#include "analyzer/policies/parameters.h"

namespace memreel {

PolicyEntry bound_pages_entry() {
  return {.info = {.name = "bound.pages",
                   .description = "every allocation in its own device pages, released immediately",
                   .defaults = {{"page", "2MiB"}},
                   .sub_allocates = false},
          .bind = [](const PolicySpec& spec) -> Result<BoundPolicy> {
            const auto page = power_of_two_parameter(spec, "page", 512_B, 1_GiB);
            if (!page) return page.error();
            return BoundPolicy{
                .spec = spec,
                .unit = *page,
                .run = [settings = BoundPages::Settings{*page}](const Prepared& heap, const RunOptions& options) {
                  return run_policy<BoundPages>(heap, settings, options);
                }};
          }};
}

}  // namespace memreel
