#include "analyzer/policies/ort_arena.h"

#include <string_view>

#include "analyzer/engine/engine.h"
#include "analyzer/policies/bfc.h"
#include "analyzer/policies/parameters.h"

namespace memreel {
namespace {

/// Reads the sizes of a spec; keeps the first invalid one.
class Sizes {
 public:
  explicit Sizes(const PolicySpec& spec) : spec_(spec) {}

  Bytes operator()(const std::string& name) { return read(name, "a size such as 2MiB"); }
  Bytes or_none(const std::string& name) {
    if (spec_.parameters.at(name) == "none") return BfcSettings::unlimited;
    return read(name, "a size such as 2MiB, or none");
  }
  const std::optional<Error>& error() const { return error_; }

 private:
  Bytes read(const std::string& name, std::string_view expected) {
    const auto size = parse_size(spec_.parameters.at(name));
    if (size && size->count > 0 && *size <= BfcSettings::unlimited) return *size;
    if (!error_) error_ = bad_parameter(spec_, name, expected);
    return 1_B;
  }

  const PolicySpec& spec_;
  std::optional<Error> error_;
};

Result<BfcSettings> settings_of(const PolicySpec& spec) {
  const std::string& extend = spec.parameters.at("extend");
  if (extend != "power_of_two" && extend != "same_as_requested")
    return bad_parameter(spec, "extend", "power_of_two or same_as_requested");
  Sizes sizes(spec);
  const BfcSettings settings{
      .growth = extend == "power_of_two" ? BfcSettings::Growth::doubling : BfcSettings::Growth::requested,
      .first_region = sizes("first"),
      .largest_region = sizes.or_none("largest"),
      .onnx_growth = true,
      .region_after_shrink = sizes("regrowth"),
      .limit = sizes.or_none("max_mem"),
      .largest_rest = sizes("largest_rest"),
      .shrinks = true};
  if (sizes.error()) return *sizes.error();
  return settings;
}

}  // namespace

PolicyEntry ort_arena_entry() {
  return {.info = {.name = "ort.arena",
                   .description = "the arena of ONNX Runtime",
                   .defaults = {{"extend", "power_of_two"},
                                {"first", "1MiB"},
                                {"largest", "1GiB"},
                                {"largest_rest", "128MiB"},
                                {"max_mem", "none"},
                                {"regrowth", "2MiB"}}},
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
