// SPDX-License-Identifier: Apache-2.0
#include "analyzer/gate/gate.h"
#include "formats/model/files.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

namespace memreel {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view schema = "memreel.baseline/1";

/// Reads members of JSON objects; records the first that is missing or has the wrong type.
class Members {
 public:
  void read(const Json& object, const char* key, std::string& into) {
    if (const Json* value = find(object, key); value != nullptr && value->is_string())
      into = value->get<std::string>();
    else
      miss(key);
  }
  void read(const Json& object, const char* key, std::uint64_t& into) {
    if (const Json* value = find(object, key); value != nullptr && value->is_number_unsigned())
      into = value->get<std::uint64_t>();
    else
      miss(key);
  }
  void read(const Json& object, const char* key, std::uint32_t& into) {
    std::uint64_t value = 0;
    read(object, key, value);
    into = static_cast<std::uint32_t>(std::min<std::uint64_t>(value, std::numeric_limits<std::uint32_t>::max()));
  }
  void read(const Json& object, const char* key, Bytes& into) { read(object, key, into.count); }
  void read(const Json& object, const char* key, double& into) {
    if (const Json* value = find(object, key); value != nullptr && value->is_number())
      into = value->get<double>();
    else
      miss(key);
  }
  void read(const Json& object, const char* key, std::int32_t& into) {
    const Json* value = find(object, key);
    const auto number = value != nullptr && value->is_number_integer() ? value->get<std::int64_t>()
                                                                       : std::numeric_limits<std::int64_t>::max();
    if (number >= -1 && number < 1 << 20)
      into = static_cast<std::int32_t>(number);
    else
      miss(key);
  }
  /// The list `key`; empty if there is none.
  const Json& list(const Json& object, const char* key) {
    static const Json none = Json::array();
    if (const Json* value = find(object, key); value != nullptr && value->is_array()) return *value;
    miss(key);
    return none;
  }

  const std::optional<std::string>& missing() const { return missing_; }

 private:
  static const Json* find(const Json& object, const char* key) {
    if (!object.is_object()) return nullptr;
    const auto found = object.find(key);
    return found == object.end() ? nullptr : &*found;
  }
  void miss(const char* key) {
    if (!missing_) missing_ = key;
  }

  std::optional<std::string> missing_;
};

/// Enough digits to compare, few enough to read. Rounds up, so that a run is no regression from itself.
double rounded_up(double share) { return std::ceil(share * 1e6) / 1e6; }

}  // namespace

std::string baseline_text(const Measured& measured) {
  Json policies = Json::array();
  for (const PolicyMetrics& p : measured.policies)
    policies.push_back({{"policy", p.policy},
                        {"device", p.device},
                        {"peak_reserved_bytes", p.peak_reserved.count},
                        {"fragmentation_at_peak", rounded_up(p.fragmentation_at_peak)},
                        {"failed_allocations", p.failed_allocations}});
  Json devices = Json::array();
  for (const DeviceMetrics& d : measured.devices) {
    Json sites = Json::array();
    for (const SiteMetrics& s : d.sites)
      sites.push_back({{"function", s.function}, {"file", s.file}, {"bytes", s.bytes.count}});
    devices.push_back({{"device", d.device},
                       {"steps", d.steps},
                       {"heaps", d.heaps},
                       {"peak_live_bytes", d.peak_live.count},
                       {"leaked_bytes", d.leaked.count},
                       {"live_at_peak", std::move(sites)}});
  }
  const Json document{{"schema", schema},
                      {"version", measured.version},
                      {"settings", measured.settings},
                      {"policies", std::move(policies)},
                      {"devices", std::move(devices)}};
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<Measured> parse_baseline(std::string_view text, const std::string& where) {
  const auto bad = [&](std::string what) {
    return Error{
        .what = std::move(what), .where = where, .remedy = "write a new one with memreel check --write-baseline"};
  };
  // Anything nested deeper than a baseline is dropped: copying or destroying it would overflow the stack.
  constexpr int deepest = 8;
  const auto keep = [](int depth, Json::parse_event_t, Json&) { return depth <= deepest; };
  const Json document = Json::parse(text, keep, false);
  if (!document.is_object() || document.value("schema", Json()) != schema)
    return bad("is not a baseline (" + std::string(schema) + ")");
  Members members;
  Measured measured;
  // Older baselines have neither version nor settings, steps and heaps.
  const bool is_identified = document.contains("version");
  if (is_identified) {
    members.read(document, "version", measured.version);
    members.read(document, "settings", measured.settings);
  }
  for (const Json& entry : members.list(document, "policies")) {
    PolicyMetrics& p = measured.policies.emplace_back();
    members.read(entry, "policy", p.policy);
    members.read(entry, "device", p.device);
    members.read(entry, "peak_reserved_bytes", p.peak_reserved);
    members.read(entry, "fragmentation_at_peak", p.fragmentation_at_peak);
    members.read(entry, "failed_allocations", p.failed_allocations);
  }
  for (const Json& entry : members.list(document, "devices")) {
    DeviceMetrics& d = measured.devices.emplace_back();
    members.read(entry, "device", d.device);
    if (is_identified) {
      members.read(entry, "steps", d.steps);
      for (const Json& name : members.list(entry, "heaps"))
        if (name.is_string()) d.heaps.push_back(name.get<std::string>());
      std::ranges::sort(d.heaps);
    }
    members.read(entry, "peak_live_bytes", d.peak_live);
    members.read(entry, "leaked_bytes", d.leaked);
    for (const Json& place : members.list(entry, "live_at_peak")) {
      SiteMetrics& s = d.sites.emplace_back();
      members.read(place, "function", s.function);
      members.read(place, "file", s.file);
      members.read(place, "bytes", s.bytes);
    }
  }
  if (members.missing()) return bad("has no sensible '" + *members.missing() + "' everywhere");
  return measured;
}

Result<Measured> read_baseline(const std::filesystem::path& file) {
  const Result<std::string> text = read_whole_file(file, "write it with memreel check --write-baseline");
  if (!text) return text.error();
  return parse_baseline(*text, file.string());
}

}  // namespace memreel
