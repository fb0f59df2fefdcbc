#include "analyzer/policies/ort_arena.h"

#include "analyzer/engine/engine.h"
#include "analyzer/policies/bfc.h"
#include "analyzer/policies/parameters.h"

namespace memreel {
namespace {

Result<BfcSettings> settings_of(const PolicySpec& spec) {
  BfcSettings settings{.onnx_growth = true, .shrinks = true};
  const std::string& extend = spec.parameters.at("extend");
  if (extend == "same_as_requested")
    settings.growth = BfcSettings::Growth::requested;
  else if (extend != "power_of_two")
    return bad_parameter(spec, "extend", "power_of_two or same_as_requested");
  const auto first = power_of_two_parameter(spec, "first", 256_B, 1024_GiB);
  if (!first) return first.error();
  const auto largest = power_of_two_parameter(spec, "largest", 256_B, 1024_GiB);
  if (!largest) return largest.error();
  const auto rest = parse_size(spec.parameters.at("largest_rest"));
  if (!rest || rest->count == 0) return bad_parameter(spec, "largest_rest", "a size such as 128MiB");
  settings.first_region = *first;
  settings.largest_region = *largest;
  settings.largest_rest = *rest;
  return settings;
}

}  // namespace

PolicyEntry ort_arena_entry() {
  return {.info = {.name = "ort.arena",
                   .description = "the arena of ONNX Runtime",
                   .defaults = {{"extend", "power_of_two"},
                                {"first", "1MiB"},
                                {"largest", "1GiB"},
                                {"largest_rest", "128MiB"}}},
          .bind = [](const PolicySpec& spec) -> Result<BoundPolicy> {
            const auto settings = settings_of(spec);
            if (!settings) return settings.error();
            return BoundPolicy{.spec = spec,
                               .unit = settings->growth == BfcSettings::Growth::requested ? BfcSettings::unit : 1_MiB,
                               .run = [settings = *settings](const Prepared& heap, const RunOptions& options) {
                                 return run_policy<Bfc>(heap, settings, options);
                               }};
          }};
}

}  // namespace memreel
