// SPDX-License-Identifier: Apache-2.0
#include "analyzer/fleet/settings_search.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <system_error>
#include <thread>
#include <utility>

#include "analyzer/fleet/claim.h"

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

}  // namespace memreel
