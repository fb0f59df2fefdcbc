#include "analyzer/cli/tune_command.h"
#include "analyzer/tune/search_space.h"

namespace memreel::cli {
namespace {

Json json_of_device(const ReplayResult& r) {
  return {{"device", r.device},
          {"peak_live_bytes", r.peak_live.count},
          {"peak_reserved_bytes", r.peak_reserved.count},
          {"peak_reserved_event", r.peak_reserved_event},
          {"end_reserved_bytes", r.end_reserved.count},
          {"fragmentation_at_peak", r.fragmentation_at_peak},
          {"internal_waste", r.internal_waste},
          {"failed_allocations", r.failed_allocations},
          {"first_failure", json_of_failure(r.first_failure)},
          {"driver_calls", json_of_calls(r.driver_calls)}};
}

Json json_of_outcome(const Outcome& outcome, const TuneResult& result) {
  const ReplayResult& worst = outcome.worst();
  const DriverCalls calls = outcome.driver_calls();
  Json json{{"setting", has_settings(outcome.policy) ? Json(conf_of(outcome.policy)) : Json(nullptr)},
            {"policy", outcome.policy.name},
            {"params", outcome.policy.parameters},
            {"peak_live_bytes", worst.peak_live.count},
            {"peak_reserved_bytes", worst.peak_reserved.count},
            {"saved_bytes", static_cast<std::int64_t>(result.baseline.peak_reserved().count) -
                                static_cast<std::int64_t>(worst.peak_reserved.count)},
            {"saved_share", saved_share(result.baseline.peak_reserved(), worst.peak_reserved)},
            {"end_reserved_bytes", worst.end_reserved.count},
            {"failed_allocations", outcome.failures()},
            {"first_failure", json_of_failure(outcome.first_failure())},
            {"min_capacity_bytes", outcome.min_capacity ? Json(outcome.min_capacity->count) : Json(nullptr)},
            {"driver_calls", json_of_calls(calls)},
            {"driver_seconds", outcome.driver_seconds()},
            {"device", worst.device},
            {"devices", Json::array()}};
  for (const ReplayResult& r : outcome.heaps) json["devices"].push_back(json_of_device(r));
  return json;
}

/// The findings for the heaps of one allocator.
Json findings_of(const TuneResult& result, const TuneReport& report) {
  Json baseline = json_of_outcome(result.baseline, result);
  baseline.erase("saved_bytes");
  baseline.erase("saved_share");
  const Bytes recorded = report.recorded_peak();
  baseline["recorded_peak_reserved_bytes"] = recorded == 0_B ? Json(nullptr) : Json(recorded.count);

  Json candidates = Json::array();
  for (const Outcome& outcome : result.settings) candidates.push_back(json_of_outcome(outcome, result));
  Json allocators = Json::array();
  for (const Outcome& outcome : result.allocators) allocators.push_back(json_of_outcome(outcome, result));
  Json alternatives = Json::array();
  for (const Alternative& alternative : result.alternatives) {
    Json json = json_of_outcome(alternative.outcome, result);
    json.erase("setting");
    Json entry{{"what_if", alternative.question.text}, {"empty_cache_calls", alternative.calls}};
    entry.update(json);
    alternatives.push_back(std::move(entry));
  }
  const Outcome* const best = result.recommended();
  const ReplayResult& base = result.baseline.worst();
  const bool limited = base.device_model.kind == DeviceModel::Kind::capacity;
  Json findings({{"capacity_bytes", limited ? Json(base.device_model.capacity.count) : Json(nullptr)},
                 {"steps", report.steps.ends.size()},
                 {"step_mark", report.steps.mark},
                 {"baseline", baseline},
                 {"candidates", candidates},
                 {"settings_tried", result.tried},
                 {"settings_given_up", result.given_up},
                 {"allocators", allocators},
                 {"what_if", alternatives},
                 {"recommended", best != nullptr ? Json(conf_of(best->policy)) : Json(nullptr)},
                 {"export", best != nullptr ? Json(export_line(conf_of(best->policy))) : Json(nullptr)},
                 {"verdict", verdict(result)}});
  return findings;
}

}  // namespace

void print_tune_json(const Trace& trace, std::span<const Tuned> tuned) {
  Json document(
      {{"schema", "memreel.tune/1"}, {"trace", tuned.front().report.file.string()}, {"losses", json_of_losses(trace)}});
  document.update(findings_of(tuned.front().result, tuned.front().report));
  const TorchRules& rules = tuned.front().report.rules;
  if (!rules.text.empty()) document["torch_rules"] = rules.text;
  if (tuned.size() > 1) {
    const Tuned& pinned = tuned.back();
    Json findings = findings_of(pinned.result, pinned.report);
    for (const char* key : {"steps", "step_mark"}) findings.erase(key);
    const auto& least = pinned.result.least_unrounded_peak;
    findings["least_unrounded_peak_bytes"] = least ? Json(least->count) : Json(nullptr);
    document["pinned_memory"] = std::move(findings);
  }
  print_json(document);
}

}  // namespace memreel::cli
