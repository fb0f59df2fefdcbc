// SPDX-License-Identifier: Apache-2.0
#include "analyzer/fleet/settings_search.h"

#include <unistd.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <system_error>
#include <thread>
#include <tuple>

#include "analyzer/analysis/history/lifetimes.h"
#include "analyzer/fleet/map.h"
#include "analyzer/replay/beginning.h"
#include "analyzer/replay/completed_trace.h"
#include "analyzer/replay/program_heaps.h"
#include "analyzer/replay/tune/search_space.h"
#include "analyzer/replay/tune/tune.h"
#include "analyzer/replay/verify.h"
#include "formats/import/import.h"
#include "formats/model/files.h"
#include "formats/model/quantity.h"
#include "formats/writer/trace_writer.h"

namespace memreel {
namespace {

namespace fs = std::filesystem;

ReplayTask replay_task(const Fleet& fleet, const RankClass& of, const SettingOptions& options) {
  const auto file = [&](std::uint32_t row) { return fleet.rows[row].summary.file; };
  const std::optional<std::uint32_t> witness = witness_of(of);
  ReplayTask task{
      .file = file(of.heaviest), .witness = witness ? file(*witness) : std::string(), .limit = options.capacity};
  task.machine = fleet.rows[of.heaviest].summary.machine;
  task.heap = fleet.heap;
  // A witness on another machine's disk can't be read with it.
  if (witness && fleet.rows[*witness].summary.machine != task.machine) task.witness.clear();
  if (task.limit) *task.limit -= std::min(*task.limit, fleet.rows[of.heaviest].beside);
  return task;
}

/// The outcomes in the order of `candidates`.
void reorder(ClassSettings& of, const std::vector<std::string>& candidates) {
  std::vector<SettingOutcome> ordered;
  for (const std::string& candidate : candidates) {
    const auto found = std::ranges::find(of.outcomes, candidate, &SettingOutcome::setting);
    if (found != of.outcomes.end()) ordered.push_back(std::move(*found));
  }
  of.outcomes = std::move(ordered);
}

/// Takes what no other process has in hand.
class SharedRound {
 public:
  SharedRound(const std::vector<SettingWork>& works, const SettingOptions& options)
      : works_(works), options_(options), results_(works.size()), settled_(works.size()) {}

  /// Until every result is there, or whoever has the rest in hand takes too long. What nobody can read is given up.
  std::vector<std::string> all() {
    using Clock = std::chrono::steady_clock;
    constexpr std::chrono::seconds for_others_to_begin{30};
    ChildPool pool = make_pool();
    auto changed = Clock::now();
    for (std::size_t before = 0;; std::this_thread::sleep_for(std::chrono::milliseconds(100))) {
      bool is_in_hand = false;
      for (std::size_t i = 0; i < works_.size(); ++i) {
        if (settled_[i] || claims_.contains(i)) continue;
        if (look(i)) continue;
        if (pool.size() < jobs()) start(pool, i);
        is_in_hand = is_in_hand || (!claims_.contains(i) && fs::exists(claim_path(i), ignored_));
      }
      if (pool.size() > 0) pool.wait(std::chrono::seconds(1));
      const auto count = static_cast<std::size_t>(std::ranges::count(settled_, true));
      if (count == works_.size()) break;
      if (std::exchange(before, count) != count || pool.size() > 0 || is_in_hand) changed = Clock::now();
      if (Clock::now() - changed > for_others_to_begin) break;
    }
    return std::move(results_);
  }

  /// Each once, from `first` on; what others have in hand is theirs.
  std::vector<std::string> what_is_left(std::size_t first, SharedWork& shared) {
    ChildPool pool = make_pool();
    for (std::size_t n = 0; n < works_.size() || pool.size() > 0;) {
      while (n < works_.size() && pool.size() < jobs()) {
        const std::size_t i = (first + n++) % works_.size();
        if (look(i) || !start(pool, i))
          ++shared.others;
        else
          ++shared.done;
      }
      if (pool.size() > 0) pool.wait(std::chrono::minutes(1));
    }
    return std::move(results_);
  }

 private:
  ChildPool make_pool() {
    return {options_.limits, [this](std::size_t i) { return do_work(works_[i], options_.out); },
            [this](std::size_t i, const ChildOutcome& outcome) {
              const bool replays = !works_[i].proposes && !outcome.failure.empty();
              results_[i] = replays ? no_replays(outcome.failure) : outcome.output;
              settled_[i] = true;
              claims_.erase(i);
            },
            [this](std::size_t i) { return file_bytes(works_[i].task.file); }};
  }
  unsigned jobs() const { return options_.jobs > 0 ? options_.jobs : readers_at_once(); }
  fs::path claim_path(std::size_t i) const { return work_path(works_[i], options_.out) += ".claim"; }

  bool look(std::size_t i) {
    auto known = known_result(works_[i], options_.out);
    if (!known) return false;
    results_[i] = *std::move(known);
    settled_[i] = true;
    return true;
  }

  bool start(ChildPool& pool, std::size_t i) {
    if (!is_readable(works_[i].task)) return false;
    std::optional<Claim> claim = Claim::take(claim_path(i), options_.limits.time);
    if (!claim || look(i)) return false;  // done by now
    claims_.emplace(i, *std::move(claim));
    pool.start(i);
    return true;
  }

  const std::vector<SettingWork>& works_;
  const SettingOptions& options_;
  std::vector<std::string> results_;
  std::vector<bool> settled_;
  std::map<std::size_t, Claim> claims_;
  std::error_code ignored_;
};

}  // namespace

CommonSetting find_common_setting(const Fleet& fleet, const SettingOptions& options, const SettingRound& round) {
  const std::vector<std::uint32_t> proposing = proposing_classes(fleet);
  std::vector<SettingWork> works;
  for (const std::uint32_t k : proposing)
    works.push_back({.task = replay_task(fleet, fleet.classes[k], options), .proposes = true});
  const bool is_small = proposing.size() == fleet.classes.size();
  std::vector<std::vector<std::string>> proposals;
  for (const std::string& text : round(works, false)) proposals.push_back(read_proposals(text));
  std::vector<std::string> candidates = union_of(proposals);

  for (SettingWork& work : works) {
    work.proposes = false;
    work.candidates = candidates;
  }
  std::vector<ClassSettings> heaviest;
  for (const std::string& text : round(works, is_small)) heaviest.push_back(read_replays(text));
  Finals finals = finals_of(fleet, candidates, proposing, heaviest);

  std::vector<ClassSettings> classes(fleet.classes.size());
  std::vector<std::uint32_t> others;
  works.clear();
  for (std::size_t k = 0; k < proposing.size(); ++k) classes[proposing[k]] = std::move(heaviest[k]);
  for (std::uint32_t k = 0; k < classes.size(); ++k) {
    if (std::ranges::find(proposing, k) != proposing.end()) continue;
    if (finals.spared[k]) {
      classes[k].spared = true;
      classes[k].problem = "it would decide neither way";
      continue;
    }
    others.push_back(k);
    works.push_back(
        {.task = replay_task(fleet, fleet.classes[k], options), .candidates = finals.settings, .verifies = false});
    works.back().task.witness.clear();
  }
  if (!works.empty()) {
    const std::vector<std::string> texts = round(works, true);
    for (std::size_t i = 0; i < others.size(); ++i) classes[others[i]] = read_replays(texts[i]);
  }
  const std::size_t everywhere = finals.settings.size();
  for (std::string& candidate : candidates)
    if (std::ranges::find(finals.settings, candidate) == finals.settings.end())
      finals.settings.push_back(std::move(candidate));
  for (const std::uint32_t k : proposing) reorder(classes[k], finals.settings);
  return choose_setting(fleet, std::move(finals.settings), everywhere, std::move(classes));
}

CommonSetting find_common_setting(const Fleet& fleet, const SettingOptions& options) {
  return find_common_setting(fleet, options, [&](const std::vector<SettingWork>& works, bool /*last*/) {
    std::vector<std::string> results(works.size());
    in_child_processes(
        works.size(), options.jobs, options.limits, [&](std::size_t i) { return do_work(works[i], options.out); },
        [&](std::size_t i, const ChildOutcome& outcome) {
          const bool replays = !works[i].proposes && !outcome.failure.empty();
          results[i] = replays ? no_replays(outcome.failure) : outcome.output;
        },
        [&](std::size_t i) { return file_bytes(works[i].task.file); });
    return results;
  });
}

SharedWork share_common_setting(const Fleet& fleet, const SettingOptions& options, const Shard& shard) {
  SharedWork shared;
  find_common_setting(fleet, options, [&](const std::vector<SettingWork>& works, bool last) {
    SharedRound round(works, options);
    return last ? round.what_is_left(works.size() * shard.index / shard.count, shared) : round.all();
  });
  return shared;
}

bool is_readable(const ReplayTask& task) {
  const auto here = [&](const std::string& file) {
    return file.empty() || (::access(file.c_str(), R_OK) == 0 && machine_of(file) == task.machine);
  };
  return here(task.file) && here(task.witness);
}

namespace {

using Json = nlohmann::ordered_json;

struct RankHeaps {
  std::vector<Prepared> heaps;
  PolicySpec recorded;
  std::optional<DeviceModel> device;
};

/// What a replay of the recorded setting reserves at its peak, and what the program did, if the replay misses it: it
/// then says nothing of other settings, as in tune.
std::optional<std::pair<Bytes, Bytes>> missed_peak(const Trace& trace, const RankHeaps& rank) {
  Bytes recorded;
  bool is_unsure = trace.losses.began_late;
  for (const HeapHistory& history : heap_histories(trace)) {
    if (std::ranges::find(rank.heaps, history.heap, &Prepared::heap) == rank.heaps.end()) continue;
    recorded = std::max(recorded, history.peak_reserved);
    is_unsure |= history.is_sampled;
  }
  if (!is_unsure || recorded == 0_B) return std::nullopt;
  Result<std::vector<ReplayResult>> replayed =
      replay(rank.heaps, std::span(&rank.recorded, 1), {.series_points = 0, .threads = 1});
  if (!replayed) return std::nullopt;
  const Bytes peak = Outcome{.heaps = *std::move(replayed)}.peak_reserved();
  return misses_peak(is_unsure, peak, recorded) ? std::optional(std::pair(peak, recorded)) : std::nullopt;
}

Result<RankHeaps> open_rank(const ReplayTask& task) {
  Result<Trace> trace = open_any(task.file);
  if (!trace) return std::move(trace).error();
  complete_trace(*trace);
  RankHeaps rank{.heaps = program_heaps(*trace, task.heap)};
  const auto recorded = recorded_policy(*trace, rank.heaps);
  if (!recorded)
    return Error{.what = "it did not run with PyTorch's allocator, whose settings are searched", .where = task.file};
  rank.recorded = *recorded;
  if (const auto missed = missed_peak(*trace, rank))
    return Error{.what = "what a setting saves is not known: a replay of the one it ran with reserves " +
                         memreel::text_of(missed->first) + ", the program reserved " + memreel::text_of(missed->second),
                 .where = task.file};
  if (task.limit) rank.device = DeviceModel{.kind = DeviceModel::Kind::capacity, .capacity = *task.limit};
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

Result<std::vector<std::string>> propose(const ReplayTask& task) {
  const Result<RankHeaps> rank = open_rank(task);
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

/// How many of a recording's addresses its allocator's rules reproduce, those of the asked heap: allocations and
/// matches.
std::pair<std::uint64_t, std::uint64_t> verify_rank(const std::string& file, const std::string& heap) {
  Result<Trace> trace = open_any(file);
  if (!trace) return {};
  complete_trace(*trace);
  const auto verified = verify(*trace);
  std::pair<std::uint64_t, std::uint64_t> sum;
  if (!verified) return sum;
  for (const Verification& v : *verified) {
    if (!heap.empty() && trace->tables[trace->tables[v.heap].name] != heap) continue;
    sum.first += v.allocations;
    sum.second += v.address_matches;
  }
  return sum;
}

Result<ClassSettings> replay_on(const ReplayTask& task, std::span<const std::string> candidates, bool verifies) {
  const Result<RankHeaps> rank = open_rank(task);
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
  if (verifies) std::tie(settings.allocations, settings.address_matches) = verify_rank(task.file, task.heap);
  return settings;
}

// ---- Texts, and files of them

/// A member and its key in stored results.
template <class Row, class Value>
struct Stored {
  const char* key;
  Value Row::*at;
};

constexpr auto members_of(const SettingOutcome&) {
  using Row = SettingOutcome;
  return std::tuple{Stored{"setting", &Row::setting},     Stored{"peak", &Row::peak_reserved},
                    Stored{"peak_most", &Row::peak_most}, Stored{"failures", &Row::failed_allocations},
                    Stored{"calls", &Row::driver_calls},  Stored{"seconds", &Row::driver_seconds}};
}

constexpr auto members_of(const ClassSettings&) {
  using Row = ClassSettings;
  return std::tuple{Stored{"recorded", &Row::recorded},
                    Stored{"outcomes", &Row::outcomes},
                    Stored{"allocations", &Row::allocations},
                    Stored{"matches", &Row::address_matches},
                    Stored{"witness_allocations", &Row::witness_allocations},
                    Stored{"witness_matches", &Row::witness_matches},
                    Stored{"problem", &Row::problem}};
}

Json json_of(const auto& value) { return value; }
Json json_of(Bytes bytes) { return bytes.count; }
Json json_of(const SettingOutcome& outcome);
Json json_of(const std::vector<SettingOutcome>& outcomes) {
  Json json = Json::array();
  for (const SettingOutcome& outcome : outcomes) json.push_back(json_of(outcome));
  return json;
}
Json object_of(const auto& row) {
  Json json = Json::object();
  std::apply([&](const auto&... member) { ((json[member.key] = json_of(row.*member.at)), ...); }, members_of(row));
  return json;
}
Json json_of(const SettingOutcome& outcome) { return object_of(outcome); }

std::string text_of(const ClassSettings& settings) {
  return object_of(settings).dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// Numbers and texts that an older result lacks stay as they are.
void read(const Json& json, const char* key, auto& value) { value = json.value(key, value); }
void read(const Json& json, const char* key, Bytes& bytes) { read(json, key, bytes.count); }
void read(const Json& json, const char* key, SettingOutcome& outcome);
void read(const Json& json, const char* key, std::vector<SettingOutcome>& outcomes);
void read_object(const Json& json, auto& row) {
  std::apply([&](const auto&... member) { (read(json, member.key, row.*member.at), ...); }, members_of(row));
}
void read(const Json& json, const char* key, SettingOutcome& outcome) { read_object(json.at(key), outcome); }
void read(const Json& json, const char* key, std::vector<SettingOutcome>& outcomes) {
  for (const Json& outcome : json.at(key)) read_object(outcome, outcomes.emplace_back());
}

/// What a stored result was made from; its first line.
std::string heading_of(const SettingWork& work) {
  Json conditions = Json::object();
  if (!work.proposes) conditions = {{"candidates", work.candidates}, {"witness", work.task.witness}};
  if (!work.proposes && !work.verifies) conditions["verified"] = false;
  conditions["capacity"] = work.task.limit ? Json(work.task.limit->count) : Json(nullptr);
  if (!work.task.heap.empty()) conditions["heap"] = work.task.heap;
  return conditions.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string make_result(const SettingWork& work) {
  const ReplayTask& task = work.task;
  if (!is_readable(task))
    return work.proposes ? "[]"
                         : text_of(not_replayed("its recording is not on this machine (memreel fleet settings)"));
  if (work.proposes) {
    const Result<std::vector<std::string>> proposals = propose(task);
    return Json(proposals ? *proposals : std::vector<std::string>{})
        .dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  Result<ClassSettings> replayed = replay_on(task, work.candidates, work.verifies);
  if (!replayed) return text_of(not_replayed(replayed.error().message()));
  if (!task.witness.empty() && work.verifies)
    std::tie(replayed->witness_allocations, replayed->witness_matches) = verify_rank(task.witness, task.heap);
  return text_of(*replayed);
}

}  // namespace

std::filesystem::path work_path(const SettingWork& work, const std::filesystem::path& out) {
  return result_path(out, work.task.file, work.task.machine, work.proposes ? ".proposals" : ".replays");
}

std::optional<std::string> known_result(const SettingWork& work, const std::filesystem::path& out) {
  if (out.empty()) return std::nullopt;
  const std::filesystem::path result = work_path(work, out);
  const std::string heading = heading_of(work);
  const auto before = read_whole_file(result);
  if (!before || !before->starts_with(heading)) return std::nullopt;
  std::error_code unseen, problem;
  const auto changed = std::filesystem::last_write_time(work.task.file, unseen);
  // A recording on another machine's disk can't be read from here; that machine's result is valid.
  if (!unseen && is_readable(work.task) && std::filesystem::last_write_time(result, problem) < changed)
    return std::nullopt;
  return before->substr(heading.size());
}

std::string do_work(const SettingWork& work, const std::filesystem::path& out) {
  if (auto known = known_result(work, out)) return *std::move(known);
  std::string text = make_result(work);
  if (out.empty()) return text;
  // A result that can't be stored is computed again next time.
  if (const auto written = write_whole(work_path(work, out), heading_of(work) + text); !written) return text;
  return text;
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
    ClassSettings settings;
    read_object(Json::parse(text), settings);
    return settings;
  } catch (const Json::exception&) {
    return not_replayed("it could not be replayed");
  }
}

std::string no_replays(const std::string& why) { return text_of(not_replayed(why)); }

}  // namespace memreel
