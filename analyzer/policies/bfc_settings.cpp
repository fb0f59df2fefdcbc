#include "analyzer/policies/bfc_settings.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "analyzer/policies/parameters.h"

namespace memreel {
namespace {

/// JAX limits its allocator to whole pages.
constexpr Bytes limit_unit = 2_MiB;

std::string text_of(bool value) { return value ? "true" : "false"; }

std::string text_of(double value) {
  std::array<char, 32> text{};
  const auto result = std::to_chars(text.begin(), text.end(), value, std::chars_format::fixed);
  return {text.begin(), result.ptr};
}

/// Reads the parameters of a spec; keeps the first invalid one.
class Reader {
 public:
  explicit Reader(const PolicySpec& spec) : spec_(spec) {}

  bool boolean(const std::string& name) {
    const std::string& text = spec_.parameters.at(name);
    if (text != "true" && text != "false") refuse(name, "true or false");
    return text == "true";
  }
  double fraction(const std::string& name, bool zero_too) {
    const auto value = parse_fraction(spec_.parameters.at(name));
    if (value && *value <= 1 && (*value > 0 || (zero_too && *value == 0))) return *value;
    refuse(name, zero_too ? "from 0 to 1" : "above 0 and at most 1");
    return 1;
  }
  Bytes size(const std::string& name) {
    const auto value = parse_size(spec_.parameters.at(name));
    if (value && value->count > 0 && *value <= BfcSettings::unlimited) return *value;
    refuse(name, "a size such as 16GiB, at most 32TiB");
    return 1_B;
  }
  std::optional<Bytes> size_or_none(const std::string& name) {
    if (spec_.parameters.at(name) == "none") return std::nullopt;
    return size(name);
  }
  void refuse(const std::string& name, std::string_view expected) {
    if (!error_) error_ = bad_parameter(spec_, name, expected);
  }
  const std::optional<Error>& error() const { return error_; }

 private:
  const PolicySpec& spec_;
  std::optional<Error> error_;
};

}  // namespace

Bytes BfcSettings::limit_on(std::optional<Bytes> capacity) const {
  if (limit) return *limit;
  if (!capacity && growth != Growth::none) return unlimited;
  const Bytes total = std::min(capacity.value_or(memory), unlimited);
  const Bytes share{static_cast<std::uint64_t>(fraction * static_cast<double>(total.count))};
  return std::min(round_up(share, limit_unit), total);
}

Bytes BfcSettings::split_limit(Bytes of_all) const {
  if (fragmentation_fraction <= 0) return largest_rest;
  const Bytes share{static_cast<std::uint64_t>(fragmentation_fraction * static_cast<double>(of_all.count))};
  return std::max(share, 1_B);  // the remainder must not be empty
}

PolicySpec BfcSettings::spec(std::string name) const {
  return {.name = std::move(name),
          .parameters = {{"allow_growth", text_of(growth != Growth::none)},
                         {"coalesce_regions", text_of(coalesce_regions)},
                         {"fraction", text_of(fraction)},
                         {"fragmentation_fraction", text_of(fragmentation_fraction)},
                         {"garbage_collection", text_of(garbage_collection)},
                         {"limit", limit ? size_text(*limit) : "none"},
                         {"memory", size_text(memory)},
                         {"page", size_text(page)},
                         {"spatial_partitioning", text_of(spatial_partitioning)}}};
}

Result<BfcSettings> BfcSettings::parse(const PolicySpec& spec) {
  Reader reader(spec);
  BfcSettings settings{.growth = reader.boolean("allow_growth") ? Growth::doubling : Growth::none,
                       .limit = reader.size_or_none("limit"),
                       .fraction = reader.fraction("fraction", false),
                       .memory = reader.size("memory"),
                       .fragmentation_fraction = reader.fraction("fragmentation_fraction", true),
                       .garbage_collection = reader.boolean("garbage_collection"),
                       .coalesce_regions = reader.boolean("coalesce_regions"),
                       .spatial_partitioning = reader.boolean("spatial_partitioning")};
  const auto page = power_of_two_parameter(spec, "page", unit, 1_GiB);
  if (!page) return page.error();
  settings.page = *page;
  if (settings.spatial_partitioning && settings.growth != Growth::none)
    reader.refuse("spatial_partitioning", "possible with allow_growth=true: it needs one region");
  if (reader.error()) return *reader.error();
  return settings;
}

BfcSettings tf_bfc_settings() { return {}; }
BfcSettings tf_growth_settings() { return {.garbage_collection = true}; }
BfcSettings jax_default_settings() {
  return {.growth = BfcSettings::Growth::none, .fraction = 0.75, .page = 2_MiB, .spatial_partitioning = true};
}
BfcSettings jax_growth_settings() { return {.fraction = 0.75, .page = 2_MiB}; }

}  // namespace memreel
