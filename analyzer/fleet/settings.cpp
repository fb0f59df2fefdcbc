#include "analyzer/fleet/settings.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "analyzer/fleet/result_file.h"
#include "analyzer/replay/completed_trace.h"
#include "analyzer/replay/program_heaps.h"
#include "analyzer/replay/verify.h"
#include "analyzer/tune/search_space.h"
#include "analyzer/tune/tune.h"
#include "formats/import/import.h"
#include "formats/model/quantity.h"
#include "formats/model/whole_file.h"

namespace memreel {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t most_proposals = 4;
constexpr std::size_t most_proposing = 16;

struct RankHeaps {
  std::vector<Prepared> heaps;
  PolicySpec recorded;
  std::optional<DeviceModel> device;
};

Result<RankHeaps> open_rank(const std::string& file, const std::optional<Bytes>& capacity) {
  Result<Trace> trace = open_any(file);
  if (!trace) return std::move(trace).error();
  complete_trace(*trace);
  RankHeaps rank{.heaps = program_heaps(*trace)};
  const auto recorded = recorded_policy(*trace, rank.heaps);
  if (!recorded)
    return Error{.what = "it did not run with PyTorch's allocator, whose settings are searched", .where = file};
  rank.recorded = *recorded;
  if (capacity) rank.device = DeviceModel{.kind = DeviceModel::Kind::capacity, .capacity = *capacity};
  return rank;
}

SettingOutcome outcome_of(std::string setting, std::vector<ReplayResult> heaps) {
  const Outcome whole{.heaps = std::move(heaps)};
  return {.setting = std::move(setting),
          .peak_reserved = whole.peak_reserved(),
          .failed_allocations = whole.failures(),
          .driver_calls = count_of(whole.driver_calls()),
          .driver_seconds = whole.driver_seconds()};
}

ClassSettings not_replayed(std::string why) {
  ClassSettings settings;
  settings.problem = std::move(why);
  return settings;
}

Result<std::vector<std::string>> propose(const std::string& file, const std::optional<Bytes>& capacity) {
  const Result<RankHeaps> rank = open_rank(file, capacity);
  if (!rank) return rank.error();
  const Result<TuneResult> tuned = tune(rank->heaps, rank->recorded, {.device = rank->device, .threads = 1});
  if (!tuned) return tuned.error();
  std::vector<std::string> settings;
  for (const Outcome& outcome : tuned->settings) {
    if (settings.size() == most_proposals || outcome.failures() > 0) break;
    settings.push_back(conf_of(outcome.policy));
  }
  return settings;
}

/// How many of a recording's addresses its allocator's rules reproduce: allocations and matches.
std::pair<std::uint64_t, std::uint64_t> verify_rank(const std::string& file) {
  Result<Trace> trace = open_any(file);
  if (!trace) return {};
  complete_trace(*trace);
  const auto verified = verify(*trace);
  std::pair<std::uint64_t, std::uint64_t> sum;
  if (!verified) return sum;
  for (const Verification& v : *verified) {
    sum.first += v.allocations;
    sum.second += v.address_matches;
  }
  return sum;
}

Result<ClassSettings> replay_on(const std::string& file, std::span<const std::string> candidates,
                                const std::optional<Bytes>& capacity) {
  const Result<RankHeaps> rank = open_rank(file, capacity);
  if (!rank) return rank.error();
  std::vector<PolicySpec> specs{rank->recorded};
  for (const std::string& candidate : candidates) {
    Result<std::vector<PolicySpec>> parsed = parse_policies(candidate.empty() ? "torch" : "torch{" + candidate + "}");
    if (!parsed) return std::move(parsed).error();
    specs.push_back(parsed->front());
  }
  Result<std::vector<ReplayResult>> results =
      replay(rank->heaps, specs, {.device = rank->device, .series_points = 0, .threads = 1});
  if (!results) return std::move(results).error();
  ClassSettings settings;
  const auto heaps = static_cast<std::ptrdiff_t>(rank->heaps.size());
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const auto first = results->begin() + static_cast<std::ptrdiff_t>(i) * heaps;
    SettingOutcome outcome = outcome_of(i == 0 ? rank->recorded.text() : candidates[i - 1],
                                        {std::move_iterator(first), std::move_iterator(first + heaps)});
    if (i == 0)
      settings.recorded = std::move(outcome);
    else
      settings.outcomes.push_back(std::move(outcome));
  }
  std::tie(settings.allocations, settings.address_matches) = verify_rank(file);
  return settings;
}

// ---- Texts, and files of them

Json json_of(const SettingOutcome& o) {
  return {{"setting", o.setting},
          {"peak", o.peak_reserved.count},
          {"failures", o.failed_allocations},
          {"calls", o.driver_calls},
          {"seconds", o.driver_seconds}};
}

SettingOutcome outcome_of(const Json& json) {
  return {.setting = json.value("setting", ""),
          .peak_reserved = {json.value("peak", std::uint64_t{0})},
          .failed_allocations = json.value("failures", std::uint64_t{0}),
          .driver_calls = json.value("calls", std::uint64_t{0}),
          .driver_seconds = json.value("seconds", 0.0)};
}

std::string text_of(const ClassSettings& s) {
  Json outcomes = Json::array();
  for (const SettingOutcome& outcome : s.outcomes) outcomes.push_back(json_of(outcome));
  return Json{{"recorded", json_of(s.recorded)},
              {"outcomes", std::move(outcomes)},
              {"allocations", s.allocations},
              {"matches", s.address_matches},
              {"witness_allocations", s.witness_allocations},
              {"witness_matches", s.witness_matches},
              {"problem", s.problem}}
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

ClassSettings read_class(const Json& json) {
  ClassSettings s{.recorded = outcome_of(json.at("recorded")),
                  .allocations = json.value("allocations", std::uint64_t{0}),
                  .address_matches = json.value("matches", std::uint64_t{0}),
                  .witness_allocations = json.value("witness_allocations", std::uint64_t{0}),
                  .witness_matches = json.value("witness_matches", std::uint64_t{0}),
                  .problem = json.value("problem", "")};
  for (const Json& outcome : json.at("outcomes")) s.outcomes.push_back(outcome_of(outcome));
  return s;
}

/// The result of `work`, read from a file if it was computed before under the same `conditions`.
template <class Work>
std::string kept(const SettingOptions& options, const std::string& file, const char* extension, Json conditions,
                 Work work) {
  conditions["capacity"] = options.capacity ? Json(options.capacity->count) : Json(nullptr);
  const std::string heading = conditions.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  if (options.out.empty()) return work();
  const std::filesystem::path result = result_path(options.out, file, extension);
  std::error_code problem;
  const auto changed = std::filesystem::last_write_time(file, problem);
  // A recording on another node's disk can't be read from here; that node's result is valid.
  const bool unseen = static_cast<bool>(problem);
  if (const auto before = read_whole_file(result);
      before && before->starts_with(heading) &&
      (unseen || std::filesystem::last_write_time(result, problem) >= changed))
    return before->substr(heading.size());
  const std::string text = work();
  // A result that can't be stored is computed again next time.
  if (const auto written = write_whole(result, heading + text); !written) return text;
  return text;
}

}  // namespace

std::string propose_settings(const std::string& file, const SettingOptions& options) {
  return kept(options, file, ".proposals", Json::object(), [&] {
    const Result<std::vector<std::string>> proposals = propose(file, options.capacity);
    return Json(proposals ? *proposals : std::vector<std::string>{})
        .dump(-1, ' ', false, Json::error_handler_t::replace);
  });
}

std::string replay_settings(const ReplayTask& task, std::span<const std::string> candidates,
                            const SettingOptions& options) {
  const Json conditions{{"candidates", std::vector<std::string>(candidates.begin(), candidates.end())},
                        {"witness", task.witness}};
  return kept(options, task.file, ".replays", conditions, [&] {
    Result<ClassSettings> replayed = replay_on(task.file, candidates, options.capacity);
    if (!replayed) return text_of(not_replayed(replayed.error().message()));
    if (!task.witness.empty())
      std::tie(replayed->witness_allocations, replayed->witness_matches) = verify_rank(task.witness);
    return text_of(*replayed);
  });
}

std::vector<std::string> read_proposals(const std::string& text) {
  const Json json = Json::parse(text, nullptr, false);
  std::vector<std::string> proposals;
  if (json.is_array())
    for (const Json& entry : json)
      if (entry.is_string()) proposals.push_back(entry.get<std::string>());
  return proposals;
}

ClassSettings read_replays(const std::string& text) {
  try {
    return read_class(Json::parse(text));
  } catch (const Json::exception&) {
    return not_replayed("it could not be replayed");
  }
}

ReplayTask replay_task(const Fleet& fleet, const RankClass& of) {
  const auto file = [&](std::uint32_t row) { return fleet.rows[row].summary.file; };
  return {.file = file(of.rows.front()), .witness = of.rows.size() > 1 ? file(of.rows.back()) : std::string()};
}
std::vector<std::uint32_t> proposing_classes(const Fleet& fleet) {
  std::vector<std::uint32_t> classes;
  for (std::uint32_t i = 0; i < fleet.classes.size(); ++i) classes.push_back(i);
  std::ranges::stable_sort(classes, std::greater{}, [&](std::uint32_t i) { return fleet.classes[i].peak_reserved; });
  if (classes.size() > most_proposing) classes.resize(most_proposing);
  return classes;
}

std::vector<std::string> union_of(std::span<const std::vector<std::string>> proposals) {
  std::vector<std::string> all;
  for (std::size_t i = 0; i < most_proposals; ++i)
    for (const std::vector<std::string>& of_class : proposals)
      if (i < of_class.size() && std::ranges::find(all, of_class[i]) == all.end()) all.push_back(of_class[i]);
  return all;
}

namespace {

Bytes decider_peak(const Fleet& fleet, const CommonSetting& common, std::optional<std::size_t> candidate) {
  const auto klass = fleet.rows[fleet.decides->row].klass;
  for (const ClassSettings& c : common.classes)
    if (c.klass == klass && c.problem.empty())
      return candidate ? c.outcomes[*candidate].peak_reserved : c.recorded.peak_reserved;
  return {};
}

/// A setting's effect on all classes together: failures, highest reserved bytes, cost of its driver calls.
struct Total {
  std::uint64_t failures = 0;
  Bytes peak;
  double driver_seconds = 0;

  void add(const SettingOutcome& outcome) {
    failures += outcome.failed_allocations;
    peak = std::max(peak, outcome.peak_reserved);
    driver_seconds += outcome.driver_seconds;
  }
};

/// Fewer failures first, then the lower peak if it differs by more than what counts as equal, then cost.
bool is_better(const Total& a, const Total& b) {
  if (a.failures != b.failures) return a.failures < b.failures;
  if (std::abs(saved_share(b.peak, a.peak)) >= peak_margin) return a.peak < b.peak;
  return a.driver_seconds < b.driver_seconds;
}

std::string why_of(const Fleet& fleet, const CommonSetting& common) {
  const std::string ranks = std::to_string(fleet.judged()) + " ranks in " + std::to_string(common.classes.size()) +
                            (common.classes.size() == 1 ? " class" : " classes");
  if (!common.best)
    return "no setting helps: of " + std::to_string(common.candidates.size()) + " replayed on all of " + ranks +
           " none lowers the highest peak, " + text_of(common.peak_before) + ", by 1 % or more";
  return "lowers the highest peak from " + text_of(common.peak_before) + " to " + text_of(common.peak_after) +
         ", replayed on all of " + ranks;
}

}  // namespace

CommonSetting choose_setting(const Fleet& fleet, std::vector<std::string> candidates,
                             std::vector<ClassSettings> classes) {
  CommonSetting common;
  common.candidates = std::move(candidates);
  common.classes = std::move(classes);
  for (std::uint32_t i = 0; i < common.classes.size(); ++i) {
    const std::vector<std::uint32_t>& rows = fleet.classes[i].rows;
    common.classes[i].klass = i;
    common.classes[i].row = rows.front();
    if (rows.size() > 1) common.classes[i].witness = rows.back();
  }
  std::vector<Total> totals(common.candidates.size());
  Total recorded;
  bool any = false;
  for (const ClassSettings& c : common.classes) {
    if (!c.problem.empty()) continue;
    any = true;
    recorded.add(c.recorded);
    SettingOutcome best = c.recorded;
    for (std::size_t i = 0; i < c.outcomes.size(); ++i) {
      totals[i].add(c.outcomes[i]);
      if (std::tie(c.outcomes[i].failed_allocations, c.outcomes[i].peak_reserved) <
          std::tie(best.failed_allocations, best.peak_reserved))
        best = c.outcomes[i];
    }
    common.peak_per_class = std::max(common.peak_per_class, best.peak_reserved);
  }
  common.peak_before = common.peak_after = recorded.peak;
  if (!any) {
    common.why = common.classes.empty() ? "nothing was replayed" : common.classes.front().problem;
    return common;
  }
  for (std::size_t i = 0; i < totals.size(); ++i)
    if (!common.best || is_better(totals[i], totals[*common.best])) common.best = i;
  if (common.best) {
    const Total& best = totals[*common.best];
    const bool helps = best.failures < recorded.failures ||
                       (best.failures == recorded.failures && saved_share(recorded.peak, best.peak) >= peak_margin);
    if (!helps) common.best.reset();
  }
  common.decider_before = decider_peak(fleet, common, std::nullopt);
  common.decider_after = decider_peak(fleet, common, common.best);
  if (common.best) {
    common.peak_after = totals[*common.best].peak;
    for (std::size_t i = 0; i < common.classes.size(); ++i) {
      const ClassSettings& c = common.classes[i];
      if (!c.problem.empty()) continue;
      const SettingOutcome& now = c.outcomes[*common.best];
      if (now.failed_allocations > c.recorded.failed_allocations ||
          saved_share(c.recorded.peak_reserved, now.peak_reserved) <= -peak_margin)
        common.worse.push_back(i);
    }
  }
  common.why = why_of(fleet, common);
  return common;
}

CommonSetting find_common_setting(const Fleet& fleet, const SettingOptions& options) {
  const std::vector<std::uint32_t> proposing = proposing_classes(fleet);
  std::vector<std::vector<std::string>> proposals(proposing.size());
  in_child_processes(
      proposing.size(), options.jobs, options.limits,
      [&](std::size_t i) { return propose_settings(replay_task(fleet, fleet.classes[proposing[i]]).file, options); },
      [&](std::size_t i, const ChildOutcome& outcome) { proposals[i] = read_proposals(outcome.output); });
  std::vector<std::string> candidates = union_of(proposals);
  std::vector<ClassSettings> classes(fleet.classes.size());
  in_child_processes(
      classes.size(), options.jobs, options.limits,
      [&](std::size_t i) { return replay_settings(replay_task(fleet, fleet.classes[i]), candidates, options); },
      [&](std::size_t i, const ChildOutcome& outcome) {
        classes[i] = outcome.failure.empty() ? read_replays(outcome.output) : not_replayed(outcome.failure);
      });
  return choose_setting(fleet, std::move(candidates), std::move(classes));
}

}  // namespace memreel
