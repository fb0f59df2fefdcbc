// SPDX-License-Identifier: Apache-2.0
#include "analyzer/fleet/fleet_settings.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "analyzer/fleet/map.h"
#include "analyzer/replay/beginning.h"
#include "analyzer/replay/completed_trace.h"
#include "analyzer/replay/program_heaps.h"
#include "analyzer/replay/verify.h"
#include "analyzer/tune/search_space.h"
#include "analyzer/tune/tune.h"
#include "formats/import/import.h"
#include "formats/model/files.h"
#include "formats/model/quantity.h"

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
          .peak_most = whole.peak_reserved(),
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
  const ReplayOptions options{.device = rank->device, .series_points = 0, .threads = 1};
  const std::vector<Prepared> late = any_late(rank->heaps) ? begun_afresh(rank->heaps) : std::vector<Prepared>();
  Result<std::vector<ReplayResult>> results = replay(late.empty() ? rank->heaps : late, specs, options);
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
  for_each_beginning(rank->heaps, [&](std::span<const Prepared> begun) {
    const auto then = replay(begun, specs, options);
    for (std::size_t i = 0; then && i < then->size(); ++i) {
      const std::size_t spec = i / begun.size();
      Bytes& most = spec == 0 ? settings.recorded.peak_most : settings.outcomes[spec - 1].peak_most;
      most = std::max(most, (*then)[i].peak_reserved);
    }
  });
  std::tie(settings.allocations, settings.address_matches) = verify_rank(file);
  return settings;
}

// ---- Texts, and files of them

Json json_of(const SettingOutcome& o) {
  return {{"setting", o.setting},           {"peak", o.peak_reserved.count},
          {"peak_most", o.peak_most.count}, {"failures", o.failed_allocations},
          {"calls", o.driver_calls},        {"seconds", o.driver_seconds}};
}

SettingOutcome outcome_of(const Json& json) {
  return {.setting = json.value("setting", ""),
          .peak_reserved = {json.value("peak", std::uint64_t{0})},
          .peak_most = {json.value("peak_most", std::uint64_t{0})},
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

/// Another rank of the class than the one that is replayed.
std::optional<std::uint32_t> witness_of(const RankClass& of) {
  if (of.rows.size() < 2) return std::nullopt;
  return of.rows.back() != of.heaviest ? of.rows.back() : of.rows.front();
}

/// The result of `work`, read from a file if it was computed before under the same `conditions`.
template <class Work>
std::string kept(const SettingOptions& options, const ReplayTask& task, const char* extension, Json conditions,
                 Work work) {
  const std::string& file = task.file;
  conditions["capacity"] = task.limit ? Json(task.limit->count) : Json(nullptr);
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

std::string propose_settings(const ReplayTask& task, const SettingOptions& options) {
  return kept(options, task, ".proposals", Json::object(), [&] {
    const Result<std::vector<std::string>> proposals = propose(task.file, task.limit);
    return Json(proposals ? *proposals : std::vector<std::string>{})
        .dump(-1, ' ', false, Json::error_handler_t::replace);
  });
}

std::string replay_settings(const ReplayTask& task, std::span<const std::string> candidates,
                            const SettingOptions& options) {
  const Json conditions{{"candidates", std::vector<std::string>(candidates.begin(), candidates.end())},
                        {"witness", task.witness}};
  return kept(options, task, ".replays", conditions, [&] {
    Result<ClassSettings> replayed = replay_on(task.file, candidates, task.limit);
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

ReplayTask replay_task(const Fleet& fleet, const RankClass& of, const SettingOptions& options) {
  const auto file = [&](std::uint32_t row) { return fleet.rows[row].summary.file; };
  const std::optional<std::uint32_t> witness = witness_of(of);
  ReplayTask task{
      .file = file(of.heaviest), .witness = witness ? file(*witness) : std::string(), .limit = options.capacity};
  if (task.limit) *task.limit -= std::min(*task.limit, fleet.rows[of.heaviest].beside);
  return task;
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

std::optional<Bytes> decider_peak(const Fleet& fleet, const CommonSetting& common,
                                  std::optional<std::size_t> candidate) {
  const auto klass = fleet.rows[fleet.decides->row].klass;
  for (const ClassSettings& c : common.classes)
    if (c.klass == klass && c.problem.empty())
      return candidate ? c.outcomes[*candidate].peak_reserved : c.recorded.peak_reserved;
  return std::nullopt;
}

/// What the allocator of each rank of a class may reserve: as little as of any of them, as in its headroom.
std::optional<Bytes> room_of(const Fleet& fleet, const RankClass& c) {
  std::optional<Bytes> room;
  for (const std::uint32_t row : c.rows) {
    const RankSummary& s = fleet.rows[row].summary;
    if (!s.capacity) return std::nullopt;
    const Bytes left = *s.capacity - std::min(*s.capacity, fleet.rows[row].beside);
    room = std::min(room.value_or(left), left);
  }
  return room;
}

/// A setting's effect on all classes together: failures, least headroom, highest reserved bytes, cost of its driver
/// calls. Where some device's size is not known, less reserved bytes are more headroom.
struct Total {
  std::uint64_t failures = 0;
  Bytes peak;
  std::int64_t least_left = std::numeric_limits<std::int64_t>::max();
  double driver_seconds = 0;

  /// `at_most`: it needs no more than that, whatever was there before a late start.
  void add(const SettingOutcome& outcome, Bytes at_most, Bytes room) {
    failures += outcome.failed_allocations;
    peak = std::max(peak, outcome.peak_reserved);
    const std::uint64_t left = room.count - at_most.count;
    least_left = std::min(least_left, static_cast<std::int64_t>(left));
    driver_seconds += outcome.driver_seconds;
  }
  /// Whether it leaves more than `other` does, by more than what counts as equal.
  bool leaves_more_than(const Total& other) const {
    return static_cast<double>(least_left) - static_cast<double>(other.least_left) >=
           peak_margin * static_cast<double>(other.peak.count);
  }
};

/// Fewer failures first, then more headroom, then cost.
bool is_better(const Total& a, const Total& b) {
  if (a.failures != b.failures) return a.failures < b.failures;
  if (a.leaves_more_than(b)) return true;
  return !b.leaves_more_than(a) && a.driver_seconds < b.driver_seconds;
}

std::string count_text(std::size_t count, const char* one, const char* many) {
  return std::to_string(count) + " " + (count == 1 ? one : many);
}

/// "all of 16 ranks in 6 classes", "15 of 17 ranks in 6 of 8 classes".
std::string replayed_text(const CommonSetting& common) {
  const auto skipped = static_cast<std::size_t>(
      std::ranges::count_if(common.classes, [](const ClassSettings& c) { return !c.problem.empty(); }));
  const std::string of = count_text(common.ranks, "rank", "ranks") + " in ";
  const std::string classes = count_text(common.classes.size(), "class", "classes");
  if (common.not_replayed == 0) return "all of " + of + classes;
  return std::to_string(common.ranks - common.not_replayed) + " of " + of +
         std::to_string(common.classes.size() - skipped) + " of " + classes + "; " +
         count_text(common.not_replayed, "rank was", "ranks were") + " not replayed";
}

/// `rooms_known`: of all classes that were replayed.
std::string why_of(const CommonSetting& common, const Total& recorded, const Total& best, bool rooms_known) {
  if (!common.best)
    return "no setting helps: of " + std::to_string(common.candidates.size()) + " replayed on " +
           replayed_text(common) +
           ", none leaves more of the device than the recorded one, of which the highest peak is " +
           text_of(common.peak_before) + ", by 1 % or more";
  std::string why =
      recorded.failures > best.failures
          ? "serves " + memreel::text_of(recorded.failures - best.failures) +
                " requests that fail with the recorded one; the "
                "highest peak is " +
                text_of(common.peak_after)
          : "lowers the highest peak from " + text_of(common.peak_before) + " to " + text_of(common.peak_after);
  if (rooms_known && (best.least_left < 0 || best.failures > 0)) why += ", which still does not fit";
  return why + ", replayed on " + replayed_text(common);
}

/// "; the recordings of 2 ranks began late: they may reserve up to 9.80 GiB". Empty if none leaves that open.
std::string from_late_starts(const Fleet& fleet, const CommonSetting& common) {
  std::size_t ranks = 0;
  Bytes most;
  for (const ClassSettings& c : common.classes) {
    if (!c.problem.empty()) continue;
    const SettingOutcome& outcome = common.best ? c.outcomes[*common.best] : c.recorded;
    if (100 * outcome.peak_most.count <= 101 * outcome.peak_reserved.count) continue;
    ranks += fleet.classes[c.klass].rows.size();
    most = std::max(most, outcome.peak_most);
  }
  if (ranks == 0) return {};
  return "; the recordings of " + count_text(ranks, "rank", "ranks") + " began late: they may reserve up to " +
         memreel::text_of(most);
}

}  // namespace

CommonSetting choose_setting(const Fleet& fleet, std::vector<std::string> candidates,
                             std::vector<ClassSettings> classes) {
  CommonSetting common;
  common.candidates = std::move(candidates);
  common.classes = std::move(classes);
  for (std::uint32_t i = 0; i < common.classes.size(); ++i) {
    common.classes[i].klass = i;
    common.classes[i].row = fleet.classes[i].heaviest;
    common.classes[i].witness = witness_of(fleet.classes[i]);
  }
  std::vector<Total> totals(common.candidates.size());
  Total recorded;
  bool any = false;
  std::vector<std::optional<Bytes>> rooms;
  for (const RankClass& c : fleet.classes) rooms.push_back(room_of(fleet, c));
  bool rooms_known = true;
  for (const ClassSettings& c : common.classes) {
    common.ranks += fleet.classes[c.klass].rows.size();
    if (c.problem.empty())
      rooms_known = rooms_known && rooms[c.klass].has_value();
    else
      common.not_replayed += fleet.classes[c.klass].rows.size();
  }
  for (const ClassSettings& c : common.classes) {
    if (!c.problem.empty()) continue;
    any = true;
    const Bytes room = rooms_known ? rooms[c.klass].value_or(0_B) : 0_B;
    recorded.add(c.recorded, c.recorded.peak_reserved, room);
    SettingOutcome best = c.recorded;
    for (std::size_t i = 0; i < c.outcomes.size(); ++i) {
      totals[i].add(c.outcomes[i], c.outcomes[i].peak_most, room);
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
    const bool helps =
        best.failures < recorded.failures || (best.failures == recorded.failures && best.leaves_more_than(recorded));
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
  common.why = why_of(common, recorded, common.best ? totals[*common.best] : recorded, rooms_known) +
               from_late_starts(fleet, common);
  return common;
}

CommonSetting find_common_setting(const Fleet& fleet, const SettingOptions& options) {
  const std::vector<std::uint32_t> proposing = proposing_classes(fleet);
  std::vector<std::vector<std::string>> proposals(proposing.size());
  in_child_processes(
      proposing.size(), options.jobs, options.limits,
      [&](std::size_t i) {
        return propose_settings(replay_task(fleet, fleet.classes[proposing[i]], options), options);
      },
      [&](std::size_t i, const ChildOutcome& outcome) { proposals[i] = read_proposals(outcome.output); });
  std::vector<std::string> candidates = union_of(proposals);
  std::vector<ClassSettings> classes(fleet.classes.size());
  in_child_processes(
      classes.size(), options.jobs, options.limits,
      [&](std::size_t i) {
        return replay_settings(replay_task(fleet, fleet.classes[i], options), candidates, options);
      },
      [&](std::size_t i, const ChildOutcome& outcome) {
        classes[i] = outcome.failure.empty() ? read_replays(outcome.output) : not_replayed(outcome.failure);
      });
  return choose_setting(fleet, std::move(candidates), std::move(classes));
}

}  // namespace memreel
