// SPDX-License-Identifier: Apache-2.0
#include "analyzer/fleet/fleet_settings.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>

#include "analyzer/replay/tune/tune.h"
#include "formats/model/quantity.h"

namespace memreel {
namespace {

constexpr std::size_t most_proposing = 16;
constexpr std::size_t most_finalists = 4;

}  // namespace

std::optional<std::uint32_t> witness_of(const RankClass& of) {
  if (of.rows.size() < 2) return std::nullopt;
  return of.rows.back() != of.heaviest ? of.rows.back() : of.rows.front();
}

std::vector<std::uint32_t> proposing_classes(const Fleet& fleet) {
  std::vector<std::uint32_t> classes;
  for (std::uint32_t i = 0; i < fleet.classes.size(); ++i) classes.push_back(i);
  std::ranges::stable_sort(classes, std::greater{}, [&](std::uint32_t i) { return fleet.classes[i].peak_reserved; });
  if (classes.size() <= most_proposing) return classes;
  const auto decides = fleet.decides ? fleet.rows[fleet.decides->row].klass : std::nullopt;
  const auto end = classes.begin() + most_proposing;
  if (decides && std::find(classes.begin(), end, *decides) == end) classes[most_proposing - 1] = *decides;
  classes.resize(most_proposing);
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

/// "all 16 ranks in 6 classes", "15 of 17 ranks in 6 of 8 classes".
std::string replayed_text(const CommonSetting& common) {
  const auto skipped = static_cast<std::size_t>(
      std::ranges::count_if(common.classes, [](const ClassSettings& c) { return !c.problem.empty(); }));
  const std::size_t failed = common.not_replayed - common.spared;
  const std::string of = count_text(common.ranks, "rank", "ranks") + " in ";
  const std::string classes = count_text(common.classes.size(), "class", "classes");
  if (common.not_replayed == 0) return (common.ranks == 1 ? "" : "all ") + of + classes;
  std::string text = std::to_string(common.ranks - common.not_replayed) + " of " + of +
                     std::to_string(common.classes.size() - skipped) + " of " + classes;
  if (failed > 0) text += "; " + count_text(failed, "rank was", "ranks were") + " not replayed";
  if (common.spared > 0)
    text += "; " + std::to_string(common.spared) + " of the ranks would decide neither way, and were not replayed";
  return text;
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
          ? "serves " + counted(recorded.failures - best.failures, "request") +
                (recorded.failures - best.failures == 1 ? " that fails" : " that fail") +
                " with the recorded one; the "
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

Finals finals_of(const Fleet& fleet, std::span<const std::string> candidates, std::span<const std::uint32_t> proposing,
                 std::span<const ClassSettings> replays) {
  Finals finals{.settings = {candidates.begin(), candidates.end()}, .spared = std::vector<bool>(fleet.classes.size())};
  if (proposing.size() == fleet.classes.size()) return finals;
  std::vector<std::optional<Bytes>> rooms;
  for (const RankClass& c : fleet.classes) rooms.push_back(room_of(fleet, c));
  const bool rooms_known = std::ranges::all_of(rooms, [](const auto& room) { return room.has_value(); });
  const auto room = [&](std::uint32_t klass) { return rooms_known ? *rooms[klass] : 0_B; };
  std::vector<Total> totals(candidates.size());
  Total recorded;
  for (std::size_t k = 0; k < proposing.size(); ++k) {
    const ClassSettings& c = replays[k];
    if (!c.problem.empty()) continue;
    recorded.add(c.recorded, c.recorded.peak_reserved, room(proposing[k]));
    for (std::size_t i = 0; i < std::min(totals.size(), c.outcomes.size()); ++i)
      totals[i].add(c.outcomes[i], c.outcomes[i].peak_most, room(proposing[k]));
  }
  std::vector<std::size_t> order(candidates.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) {
    return std::tuple(totals[i].failures, -totals[i].least_left, totals[i].driver_seconds);
  });
  finals.settings.clear();
  std::int64_t least_left = recorded.least_left;
  for (const std::size_t i : order) {
    const Total& total = totals[i];
    const bool helps =
        total.failures < recorded.failures || (total.failures == recorded.failures && total.leaves_more_than(recorded));
    if (!helps || finals.settings.size() == most_finalists) continue;
    finals.settings.push_back(candidates[i]);
    least_left = std::max(least_left, total.least_left);
  }
  for (std::uint32_t k = 0; k < fleet.classes.size(); ++k) {
    if (std::ranges::find(proposing, k) != proposing.end()) continue;
    const RankClass& of = fleet.classes[k];
    const bool doubtful = std::ranges::any_of(of.rows, [&](std::uint32_t row) {
      const RankSummary& s = fleet.rows[row].summary;
      return s.in_part() || s.failed_allocations > 0;
    });
    const auto twice = static_cast<std::int64_t>(2 * of.peak_reserved.count);
    finals.spared[k] =
        finals.settings.empty() || (!doubtful && static_cast<std::int64_t>(room(k).count) - twice >= least_left);
  }
  return finals;
}

CommonSetting choose_setting(const Fleet& fleet, std::vector<std::string> candidates, std::size_t everywhere,
                             std::vector<ClassSettings> classes) {
  CommonSetting common;
  common.candidates = std::move(candidates);
  common.everywhere = everywhere;
  common.classes = std::move(classes);
  for (std::uint32_t i = 0; i < common.classes.size(); ++i) {
    common.classes[i].klass = i;
    common.classes[i].row = fleet.classes[i].heaviest;
    if (common.classes[i].witness_allocations > 0) common.classes[i].witness = witness_of(fleet.classes[i]);
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
    if (c.spared) common.spared += fleet.classes[c.klass].rows.size();
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
  for (std::size_t i = 0; i < everywhere; ++i)
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
  if (everywhere > 0 && everywhere < common.candidates.size())
    common.why += "; " + std::to_string(common.candidates.size() - everywhere) + " of " +
                  std::to_string(common.candidates.size()) + " settings were replayed on the " +
                  std::to_string(most_proposing) + " heaviest classes only, where they help less";
  return common;
}

}  // namespace memreel
