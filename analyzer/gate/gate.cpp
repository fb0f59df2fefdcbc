// SPDX-License-Identifier: Apache-2.0
#include "analyzer/gate/gate.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <set>

#include "analyzer/gate/edited_json.h"
#include "formats/model/files.h"
#include "formats/model/quantity.h"
#include "formats/model/stack_text.h"

namespace memreel {
namespace {

/// Whether it says where memory is made.
bool is_place(const SiteMetrics& site) {
  return site.function != preexisting_frame && !(site.function.empty() && site.file.empty());
}

std::string place_of(const SiteMetrics& site) {
  return site.file.empty() ? site.function : site.function + " (" + site.file + ")";
}

const DeviceMetrics* metrics_of(const Measured& measured, std::int32_t device) {
  const auto found = std::ranges::find(measured.devices, device, &DeviceMetrics::device);
  return found == measured.devices.end() ? nullptr : &*found;
}

/// ", of which 1.20 GiB at step (train.py:7) < main (train.py:40)": the call path of the largest part.
std::string by_stack(const SiteMetrics& site) {
  if (site.stack.empty()) return "";
  std::string text = site.of_stack < site.bytes ? ", of which " + text_of(site.of_stack) + " at " : ", at ";
  for (const std::string& frame : site.stack) text += (&frame == &site.stack.front() ? "" : " < ") + frame;
  return text;
}

/// The largest of the places, if any says something: "most is held by step (train.py): 2.10 GiB" of `all`, or, if it is
/// less than half, "the largest holder is ...".
std::string largest_of(const std::vector<SiteMetrics>& sites, Bytes all, std::string_view most,
                       std::string_view largest) {
  const auto site = std::ranges::find_if(sites, is_place);
  if (site == sites.end()) return "";
  const bool is_most = site->bytes > all - std::min(all, site->bytes);
  std::string text(is_most ? most : largest);
  if (site != sites.begin()) text = "of what has a call stack, " + std::string(largest);
  return text + " " + place_of(*site) + ": " + text_of(site->bytes) + by_stack(*site);
}

/// "; at the peak, most is held by step (train.py): 2.10 GiB", at the moment of most live bytes.
std::string most_held(const Measured& now, std::int32_t device) {
  const DeviceMetrics* const metrics = metrics_of(now, device);
  if (metrics == nullptr) return "";
  const std::string text = largest_of(metrics->sites, metrics->peak_live, "most is held by", "the largest holder is");
  return text.empty() ? "" : "; at the peak, " + text;
}

/// "; most is leaked by step (train.py): 2.10 GiB, at ...".
std::string most_leaked(const Measured& now, std::int32_t device) {
  const DeviceMetrics* const metrics = metrics_of(now, device);
  if (metrics == nullptr) return "";
  const std::string text = largest_of(metrics->leaks, metrics->leaked, "most is leaked by", "the largest leak is of");
  return text.empty() ? "" : "; " + text;
}

/// "; step (train.py) grew most: 2.10 GiB, before 1.90 GiB"; among those that hold more than before.
std::string most_grown(const Measured& now, const Measured& before, std::int32_t device) {
  const DeviceMetrics* const metrics = metrics_of(now, device);
  const DeviceMetrics* const old = metrics_of(before, device);
  if (metrics == nullptr || old == nullptr) return "";
  const SiteMetrics* grown = nullptr;
  Bytes was;
  for (const SiteMetrics& site : metrics->sites) {
    if (!is_place(site)) continue;
    const auto same = std::ranges::find_if(
        old->sites, [&](const SiteMetrics& s) { return s.function == site.function && s.file == site.file; });
    const Bytes held = same == old->sites.end() ? 0_B : same->bytes;
    if (site.bytes > held && (grown == nullptr || site.bytes - held > grown->bytes - was)) {
      grown = &site;
      was = held;
    }
  }
  if (grown == nullptr) return "";
  return "; " + place_of(*grown) + " grew most: " + text_of(grown->bytes) + ", before " + text_of(was) +
         by_stack(*grown);
}

constexpr const char* what_pins = "; memreel report --fragmentation shows what keeps it from being released";
std::string on_device(std::int32_t device) { return device < 0 ? "host memory" : "device " + std::to_string(device); }

std::string under(const std::string& policy) {
  if (policy.empty()) return "";
  return policy == recorded_metrics ? ", as recorded" : " with " + policy;
}

std::string excess_of(const Metric& value, const Metric& limit) {
  if (const auto* bytes = std::get_if<Bytes>(&value)) return text_of(*bytes - std::get<Bytes>(limit));
  if (const auto* share = std::get_if<double>(&value)) {
    const std::string percent = text_of_share(*share - std::get<double>(limit));
    return percent.substr(0, percent.find(' ')) + " points";
  }
  return text_of(std::get<std::uint64_t>(value) - std::get<std::uint64_t>(limit));
}

/// A check of `value`, whose reason begins with `subject` ("peak live") if the limit is exceeded.
Check judge(std::string name, std::string policy, std::int32_t device, const std::string& subject, Metric value,
            Metric limit, const std::string& cause) {
  Check check{.name = std::move(name), .policy = std::move(policy), .number = device, .value = value, .limit = limit};
  if (value > limit) {
    check.reason = subject + " on " + on_device(device) + under(check.policy) + ": " + text_of(value) + ", " +
                   excess_of(value, limit) + " more than the " + text_of(limit) + " allowed" + cause;
  }
  return check;
}

/// "; replayed from a late start, it is between 9.10 GiB and 9.80 GiB".
std::string from_late_start(const std::optional<std::pair<Bytes, Bytes>>& range) {
  if (!range) return {};
  return "; replayed from a late start, it is between " + text_of(range->first) + " and " + text_of(range->second);
}

std::string unjudged_leaks(const DeviceMetrics& device) {
  if (device.leaks_not_judged.empty()) return "";
  return "leaks of " + on_device(device.device) + ", " + device.leaks_not_judged;
}

/// If memory of unknown use may belong to the category, so that it exceeds its limit.
std::string unknown_use(const CategoryMetrics& metrics, Category category, Bytes limit, std::int32_t device) {
  if (metrics.peak_with_unknown <= limit) return "";
  const std::string words(words_of(category));
  return "peak of " + words + " on " + on_device(device) + ", not judged: the use of " +
         text_of(metrics.peak_with_unknown - metrics.peak) + " is unknown, which may be " + words;
}

/// Whatever is compared: that a figure is too high is not known either.
void leave_unjudged(Check& check, const std::string& why) {
  if (why.empty()) return;
  check.reason.clear();
  check.unjudged = why;
}

/// Budgets of reserved memory, where nothing shows it.
void add_unrecorded(std::int32_t device, const Budgets& budgets, std::vector<Check>& checks) {
  const auto add = [&](const char* name, Metric none, Metric limit) {
    checks.push_back({.name = name,
                      .number = device,
                      .value = none,
                      .limit = limit,
                      .unjudged = "reserved memory on " + on_device(device) + ", not judged: it is not recorded"});
  };
  if (budgets.max_reserved) add("max-reserved", 0_B, *budgets.max_reserved);
  if (budgets.max_fragmentation) add("max-fragmentation", 0.0, *budgets.max_fragmentation);
  if (budgets.all_served) add("capacity", std::uint64_t{0}, std::uint64_t{0});
}

std::string heap_on(const std::string& heap, std::int32_t device) {
  return "heap " + heap + " on " + on_device(device);
}

/// Of two sorted lists.
std::vector<std::string> only_in(const std::vector<std::string>& list, const std::vector<std::string>& other) {
  std::vector<std::string> only;
  std::ranges::set_difference(list, other, std::back_inserter(only));
  return only;
}

}  // namespace

std::vector<std::string> not_in_baseline(const Measured& now, const Measured& before) {
  std::vector<std::string> lacks;
  for (const DeviceMetrics& d : now.devices) {
    const DeviceMetrics* const old = metrics_of(before, d.device);
    if (old == nullptr)
      lacks.push_back(on_device(d.device));
    else if (!before.version.empty())
      for (const std::string& heap : only_in(d.heaps, old->heaps)) lacks.push_back(heap_on(heap, d.device));
  }
  for (const PolicyMetrics& p : now.policies) {
    const bool known_device = metrics_of(before, p.device) != nullptr;
    const bool known = std::ranges::any_of(before.policies, [&](const PolicyMetrics& other) {
      return other.policy == p.policy && other.device == p.device;
    });
    if (known_device && !known && p.unjudged.empty()) lacks.push_back(p.policy + " on " + on_device(p.device));
  }
  return lacks;
}

std::vector<std::string> not_in_run(const Measured& now, const Measured& before) {
  std::vector<std::string> lacks;
  for (const DeviceMetrics& old : before.devices) {
    const DeviceMetrics* const d = metrics_of(now, old.device);
    if (d == nullptr) {
      lacks.push_back(on_device(old.device));
      continue;
    }
    if (before.version.empty()) continue;
    for (const std::string& heap : only_in(old.heaps, d->heaps)) lacks.push_back(heap_on(heap, old.device));
    if (d->steps != old.steps)
      lacks.push_back(counted(old.steps, "step") + " on " + on_device(old.device) +
                      ", as in the baseline: this run has " + text_of(std::uint64_t{d->steps}));
  }
  return lacks;
}

Measured under_settings_of(const Measured& now, Measured before) {
  if (before.settings.empty() || now.settings.empty()) return before;
  for (PolicyMetrics& p : before.policies)
    if (p.policy == before.settings) p.policy = now.settings;
  return before;
}

namespace {

struct TextOfMetric {
  std::string operator()(Bytes bytes) const { return text_of(bytes); }
  std::string operator()(double share) const { return text_of_share(share); }
  std::string operator()(std::uint64_t requests) const { return counted(requests, "request"); }
  std::string operator()(ErrorCount errors) const { return counted(errors.count, "error"); }
  std::string operator()(RankCount ranks) const { return counted(ranks.count, "rank"); }
  std::string operator()(Ratio ratio) const { return text_of(ratio.times, 2); }
};

struct UnitOfMetric {
  std::string_view operator()(Bytes) const { return "bytes"; }
  std::string_view operator()(double) const { return "share"; }
  std::string_view operator()(std::uint64_t) const { return "requests"; }
  std::string_view operator()(ErrorCount) const { return "errors"; }
  std::string_view operator()(RankCount) const { return "ranks"; }
  std::string_view operator()(Ratio) const { return "ratio"; }
};

}  // namespace

std::string text_of(const Metric& metric) { return std::visit(TextOfMetric{}, metric); }
std::string_view unit_of(const Metric& metric) { return std::visit(UnitOfMetric{}, metric); }

Check check_valid(const Tables& tables, std::span<const PoolError> errors) {
  Check check{.name = "valid", .value = ErrorCount{}, .limit = ErrorCount{}};
  if (errors.empty()) return check;
  ErrorCount total;
  for (const PoolError& error : errors) total.count += error.count;
  const PoolError& first = errors.front();
  check.number = tables[first.heap].device;
  check.value = total;
  check.reason = text_of(check.value) + " in the use of pools; the first is a " + std::string(name_of(first.kind)) +
                 " in " + std::string(tables[tables[first.heap].name]) + ": " + evidence_of(tables, first);
  return check;
}

std::vector<Check> check_budgets(const Measured& now, const Budgets& budgets) {
  std::vector<Check> checks;
  if (budgets.max_peak) {
    for (const DeviceMetrics& d : now.devices)
      checks.push_back(judge("max-peak", "", d.device, "peak of live memory", d.peak_live, *budgets.max_peak,
                             most_held(now, d.device)));
  }
  for (const PolicyMetrics& p : now.policies) {
    if (budgets.max_reserved) {
      checks.push_back(judge("max-reserved", p.policy, p.device, "peak of reserved memory",
                             p.late_range ? p.late_range->second : p.peak_reserved, *budgets.max_reserved,
                             from_late_start(p.late_range) + most_held(now, p.device)));
      checks.back().late_range = p.late_range;
      leave_unjudged(checks.back(), p.unjudged);
    }
    if (budgets.max_fragmentation) {
      checks.push_back(judge("max-fragmentation", p.policy, p.device, "fragmentation at the peak",
                             p.fragmentation_at_peak, *budgets.max_fragmentation, what_pins));
      leave_unjudged(checks.back(), p.unjudged.empty() ? p.unjudged_fragmentation : p.unjudged);
    }
    if (budgets.all_served) {
      if (p.exceeded) {
        checks.push_back(judge("capacity", p.policy, p.device, "peak of reserved memory", p.peak_reserved, *p.exceeded,
                               most_held(now, p.device)));
        continue;
      }
      checks.push_back(judge("capacity", p.policy, p.device, "requests that failed", p.failed_allocations,
                             std::uint64_t{0}, most_held(now, p.device)));
      leave_unjudged(checks.back(), p.unjudged.empty() ? p.unjudged_capacity : p.unjudged);
      if (now.is_instant)
        checks.back().unjudged = "requests on " + on_device(p.device) + ", not judged: an instant shows none";
    }
  }
  for (const DeviceMetrics& d : now.devices)
    if (std::ranges::find(now.policies, d.device, &PolicyMetrics::device) == now.policies.end())
      add_unrecorded(d.device, budgets, checks);
  if (budgets.max_leaked) {
    for (const DeviceMetrics& d : now.devices) {
      checks.push_back(judge("max-leaked", "", d.device, "leaked memory", d.leaked, *budgets.max_leaked,
                             most_leaked(now, d.device)));
      checks.back().unjudged = unjudged_leaks(d);
    }
  }
  for (const DeviceMetrics& d : now.devices)
    for (const auto& [category, limit] : budgets.max_category) {
      const CategoryMetrics& metrics = d.categories.at(category);
      checks.push_back(judge("max-category " + std::string(name_of(category)), "", d.device,
                             "peak of " + std::string(words_of(category)), metrics.peak, limit,
                             metrics.place.empty() ? "" : "; the largest part is made at " + metrics.place));
      checks.back().unjudged = unknown_use(metrics, category, limit, d.device);
    }
  return checks;
}

std::vector<std::string> unjudged_in(std::span<const Check> checks, std::string_view name) {
  std::vector<std::string> unjudged;
  for (const Check& check : checks)
    if (!check.judged() && check.name.starts_with(name) &&
        std::ranges::find(unjudged, check.unjudged) == unjudged.end())
      unjudged.push_back(check.unjudged);
  return unjudged;
}

Bytes with_tolerance(Bytes bytes, double tolerance) {
  const double limit = static_cast<double>(bytes.count) * (1 + tolerance);
  constexpr double most = 0x1p63;
  return limit >= most ? std::max(bytes, Bytes{std::uint64_t{1} << 63U})
                       : std::max(bytes, Bytes{static_cast<std::uint64_t>(limit)});
}

std::vector<Check> check_baseline(const Measured& now, const Measured& before, double tolerance) {
  std::vector<Check> checks;
  for (const DeviceMetrics& d : now.devices) {
    const DeviceMetrics* const old = metrics_of(before, d.device);
    if (old == nullptr) continue;
    checks.push_back(judge("baseline peak-live", "", d.device, "peak of live memory", d.peak_live,
                           with_tolerance(old->peak_live, tolerance), most_grown(now, before, d.device)));
    checks.push_back(judge("baseline leaked", "", d.device, "leaked memory", d.leaked,
                           with_tolerance(old->leaked, tolerance), most_leaked(now, d.device)));
    checks.back().unjudged = unjudged_leaks(d);
  }
  for (const PolicyMetrics& p : now.policies) {
    const auto old = std::ranges::find_if(before.policies, [&](const PolicyMetrics& other) {
      return other.policy == p.policy && other.device == p.device;
    });
    if (old == before.policies.end()) continue;
    const std::string cause = most_grown(now, before, p.device);
    const std::size_t first = checks.size();
    checks.push_back(judge("baseline peak-reserved", p.policy, p.device, "peak of reserved memory", p.peak_reserved,
                           with_tolerance(old->peak_reserved, tolerance), cause));
    checks.push_back(judge("baseline fragmentation", p.policy, p.device, "fragmentation at the peak",
                           p.fragmentation_at_peak, old->fragmentation_at_peak + tolerance, what_pins));
    checks.push_back(judge("baseline failures", p.policy, p.device, "requests that failed", p.failed_allocations,
                           old->failed_allocations, cause));
    if (!p.unjudged.empty())
      for (Check& check : std::span(checks).subspan(first)) leave_unjudged(check, p.unjudged);
  }
  return checks;
}

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
  void read_share(const Json& object, const char* key, double& into) {
    const Json* value = find(object, key);
    const double share = value != nullptr && value->is_number() ? value->get<double>() : -1;
    if (share >= 0 && share <= 1)
      into = share;
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

  void read_names(const Json& object, const char* key, std::vector<std::string>& into) {
    for (const Json& name : list(object, key))
      if (name.is_string())
        into.push_back(name.get<std::string>());
      else
        miss(key);
  }
  void miss(const char* key) {
    if (!missing_) missing_ = key;
  }

  const std::optional<std::string>& missing() const { return missing_; }

 private:
  static const Json* find(const Json& object, const char* key) {
    if (!object.is_object()) return nullptr;
    const auto found = object.find(key);
    return found == object.end() ? nullptr : &*found;
  }

  std::optional<std::string> missing_;
};

/// Enough digits to compare, few enough to read. Rounds up, so that a run is no regression from itself.
double rounded_up(double share) { return std::ceil(share * 1e6) / 1e6; }

/// What a baseline has twice, as after a merge: only one of them would be compared. "torch.native on device 0".
std::optional<std::string> twice_in(const Measured& baseline) {
  std::set<std::pair<std::string, std::int32_t>> policies;
  for (const PolicyMetrics& p : baseline.policies)
    if (!policies.emplace(p.policy, p.device).second) return p.policy + " on " + on_device(p.device);
  std::set<std::int32_t> devices;
  for (const DeviceMetrics& d : baseline.devices)
    if (!devices.insert(d.device).second) return on_device(d.device);
  return std::nullopt;
}

}  // namespace

std::string baseline_text(const Measured& measured) {
  Json policies = Json::array();
  for (const PolicyMetrics& p : measured.policies) {
    if (!p.unjudged.empty()) continue;  // its figures are those of a wrong replay
    policies.push_back({{"policy", p.policy},
                        {"device", p.device},
                        {"peak_reserved_bytes", p.peak_reserved.count},
                        {"fragmentation_at_peak", rounded_up(p.fragmentation_at_peak)},
                        {"failed_allocations", p.failed_allocations}});
  }
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
  const EditedJson edited = parse_edited_json(text);
  const Json& document = edited.document;
  if (!document.is_object() || document.value("schema", Json()) != schema)
    return bad("is not a baseline (" + std::string(schema) + ")");
  if (edited.twice) return bad("has '" + *edited.twice + "' twice");
  Members members;
  Measured measured;
  // Older baselines have neither version nor settings, steps and heaps.
  const bool is_identified = document.contains("version");
  if (is_identified) {
    members.read(document, "version", measured.version);
    if (measured.version.empty()) members.miss("version");
    members.read(document, "settings", measured.settings);
  }
  for (const Json& entry : members.list(document, "policies")) {
    PolicyMetrics& p = measured.policies.emplace_back();
    members.read(entry, "policy", p.policy);
    members.read(entry, "device", p.device);
    members.read(entry, "peak_reserved_bytes", p.peak_reserved);
    members.read_share(entry, "fragmentation_at_peak", p.fragmentation_at_peak);
    members.read(entry, "failed_allocations", p.failed_allocations);
  }
  for (const Json& entry : members.list(document, "devices")) {
    DeviceMetrics& d = measured.devices.emplace_back();
    members.read(entry, "device", d.device);
    if (is_identified) {
      members.read(entry, "steps", d.steps);
      members.read_names(entry, "heaps", d.heaps);
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
  if (const auto twice = twice_in(measured)) return bad("has " + *twice + " twice");
  return measured;
}

Result<Measured> read_baseline(const std::filesystem::path& file) {
  const Result<std::string> text = read_whole_file(file, "write it with memreel check --write-baseline");
  if (!text) return text.error();
  return parse_baseline(*text, file.string());
}

}  // namespace memreel
