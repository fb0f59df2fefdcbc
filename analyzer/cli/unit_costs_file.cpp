#include "analyzer/cli/unit_costs_file.h"

#include <algorithm>
#include <ostream>
#include <string>
#include <utility>

#include "analyzer/cli/output_file.h"
#include "formats/model/whole_file.h"

namespace memreel::cli {
namespace {

constexpr std::string_view schema = "memreel.unit-costs/1";
constexpr const char* remedy = "write one with memreel replay TRACE --on-device cuda.malloc --write-unit-costs FILE";

/// A valid time: neither negative nor infinite.
std::optional<double> seconds_in(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) return 0.0;
  if (!found->is_number()) return std::nullopt;
  const double value = found->get<double>();
  if (!(value >= 0 && value < 1e6)) return std::nullopt;
  return value;
}

}  // namespace

Result<UnitCosts> read_unit_costs(const std::filesystem::path& file) {
  const auto bad = [&](std::string what) {
    return Error{.what = std::move(what), .where = file.string(), .remedy = remedy};
  };
  const Result<std::string> text = read_whole_file(file, remedy);
  if (!text) return text.error();
  const Json document = Json::parse(*text, nullptr, false);
  if (!document.is_object() || document.value("schema", Json()) != schema)
    return bad("is not a document of the schema " + std::string(schema));
  const auto calls = document.find("calls");
  if (calls == document.end() || !calls->is_object()) return bad("has no object 'calls'");
  UnitCosts costs;
  if (const auto where = document.find("measured_on"); where != document.end() && where->is_string())
    costs.measured_on = where->get<std::string>();
  for (const auto& [name, call] : calls->items()) {
    const auto kind = std::ranges::find(driver_call_names, name);
    if (kind == driver_call_names.end()) return bad("unknown call '" + name + "'");
    const auto fixed = call.is_object() ? seconds_in(call, "fixed_seconds") : std::nullopt;
    const auto per_mib = call.is_object() ? seconds_in(call, "seconds_per_mib") : std::nullopt;
    if (!fixed || !per_mib) return bad("invalid times for '" + name + "'");
    costs.of[static_cast<std::size_t>(kind - driver_call_names.begin())] = {*fixed, *per_mib};
  }
  return costs;
}

Result<void> write_unit_costs(const UnitCosts& costs, const std::filesystem::path& file) {
  Json calls = Json::object();
  for (std::size_t i = 0; i < driver_call_kinds; ++i)
    calls[std::string(driver_call_names[i])] = {{"fixed_seconds", costs.of[i].fixed_seconds},
                                                {"seconds_per_mib", costs.of[i].seconds_per_mib}};
  const Json document{{"schema", schema}, {"measured_on", costs.measured_on}, {"calls", calls}};
  return write_output(file, [&](std::ostream& out) -> Result<void> {
    print_json(document, out);
    return {};
  });
}

}  // namespace memreel::cli
