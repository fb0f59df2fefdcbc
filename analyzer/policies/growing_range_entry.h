// Registry entries for policies based on a growing range.
#pragma once

#include <string_view>

#include "analyzer/engine/engine.h"
#include "analyzer/engine/policy_entry.h"
#include "analyzer/policies/growing_range.h"
#include "analyzer/policies/parameters.h"

namespace memreel {

template <class Fit>
PolicyEntry growing_range_entry(std::string_view name, std::string_view description) {
  return {.info = {.name = name, .description = description, .defaults = {{"align", "512"}, {"page", "2MiB"}}},
          .bind = [](const PolicySpec& spec) -> Result<BoundPolicy> {
            const auto page = power_of_two_parameter(spec, "page", 64_KiB, 1_GiB);
            if (!page) return page.error();
            const auto align = power_of_two_parameter(spec, "align", 256_B, *page);
            if (!align) return align.error();
            return BoundPolicy{.spec = spec,
                               .unit = *page,
                               .run = [settings = GrowingRangeSettings{.align = *align, .page = *page}](
                                          const Prepared& heap, const RunOptions& options) {
                                 return run_policy<Fit>(heap, settings, options);
                               }};
          }};
}

}  // namespace memreel
