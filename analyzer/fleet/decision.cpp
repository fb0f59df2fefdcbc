// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <tuple>

#include "analyzer/fleet/fleet.h"
#include "formats/model/quantity.h"

namespace memreel::fleet_parts {
namespace {

constexpr std::size_t next_shown = 10;

std::vector<std::uint32_t> judged_rows(const Fleet& fleet) {
  std::vector<std::uint32_t> rows;
  for (std::uint32_t i = 0; i < fleet.rows.size(); ++i)
    if (fleet.rows[i].judged()) rows.push_back(i);
  return rows;
}

/// What a rank used of its device, for ranks of which the headroom is not known.
Bytes used_by(const FleetRow& row) { return row.summary.peak_reserved + row.beside; }

std::string doubt_of(const FleetRow& row) {
  if (row.in_part() && !row.at_least()) return "; its recording lacks events, so it may need more, or less";
  return row.in_part() ? "; its recording is " + std::string(words_of(row.summary.status)) + ", so it may need more"
                       : "";
}

std::string why_of(const FleetRow& row, bool by_headroom) {
  const RankSummary& s = row.summary;
  const std::string least(row.bound());
  if (!by_headroom)
    return "it reserves most: " + least + text_of(s.peak_reserved) + " at its peak" +
           (row.beside > 0_B ? ", " + text_of(row.beside) + " beside the framework" : "") + doubt_of(row);
  const TightestUse use = on_tightest(row);
  std::string where;
  if (!s.devices.empty()) where = " on GPU " + std::to_string(row.tightest);
  std::string why = "least headroom: " + (row.at_least() ? "at most " : least) + text_of_signed(*row.headroom) +
                    " of " + text_of(use.capacity.value_or(0_B)) + " left" + where + ", " + least +
                    text_of(use.reserved) + " reserved at its peak";
  if (row.beside > 0_B) why += ", " + text_of(row.beside) + " beside the framework";
  if (!row.shares.empty())
    why += "; " + ranks_text(row.shares) + (row.shares.size() == 1 ? " uses" : " use") + " the same GPU";
  return why + doubt_of(row);
}

/// Where that is not recorded, it was not after the end.
Nanoseconds failure_time(const FleetRow& row) {
  const RankSummary& s = row.summary;
  return s.first_failure ? s.begin + s.first_failure_time : s.end;
}

/// Nothing for a recording without times, in which events are at 0 or a nanosecond apart.
std::string when(const std::string& before, double seconds, const std::string& behind = {}) {
  constexpr double shortest_shown = 1e-6;
  return seconds >= shortest_shown ? before + text_of_seconds(seconds) + behind : "";
}

std::string failure_of(const RankSummary& s) {
  return "out of memory: " + text_of(s.failed_allocations) +
         (s.failed_allocations == 1 ? " request was refused" : " requests were refused") +
         (s.first_failure ? ", the first of " + text_of(*s.first_failure) : "") +
         when(", ", static_cast<double>(s.first_failure_time.count()) * 1e-9, " after its recording began");
}

/// Ranks that had requests refused, and those that were close to it: each by its own device or, where that is not
/// known, by what the first to fail used.
void find_failed(const Fleet& fleet, const std::vector<std::uint32_t>& rows, Decision& decision) {
  constexpr double near = 0.95;
  for (const std::uint32_t i : rows)
    if (fleet.rows[i].summary.failed_allocations > 0) decision.failed.push_back(i);
  if (decision.failed.empty()) return;
  std::ranges::stable_sort(decision.failed, {}, [&](std::uint32_t i) { return failure_time(fleet.rows[i]); });
  const FleetRow& first = fleet.rows[decision.failed.front()];
  for (const std::uint32_t i : rows) {
    const FleetRow& row = fleet.rows[i];
    if (row.summary.failed_allocations > 0) continue;
    const Bytes limit = row.summary.capacity.value_or(first.summary.capacity.value_or(used_by(first)));
    const std::int64_t left = row.headroom.value_or(static_cast<std::int64_t>(limit.count - used_by(row).count));
    if (static_cast<double>(left) <= (1 - near) * static_cast<double>(limit.count)) decision.near.push_back(i);
  }
}

/// When a recording exceeded the capacity, in seconds since its beginning.
std::optional<double> failed_after(const FleetRow& row) {
  const RankSummary& s = row.summary;
  if (!s.capacity) return std::nullopt;
  const double span = static_cast<double>((s.end - s.begin).count()) * 1e-9;
  for (std::size_t i = 0; i < s.reserved.size(); ++i)
    if (s.reserved[i] + row.beside > *s.capacity)
      return span * static_cast<double>(i) / static_cast<double>(s.reserved.size());
  return std::nullopt;
}

/// Steps until the leaks on its tightest GPU have used up the headroom.
std::optional<double> steps_left(const FleetRow& row) {
  double growth = 0;
  for (const RankLeak& leak : row.summary.leaks)
    if (leak.device.value_or(row.summary.device) == row.tightest) growth += leak.growth_bytes_per_step;
  if (growth <= 0 || !row.headroom || *row.headroom < 0) return std::nullopt;
  return static_cast<double>(*row.headroom) / growth;
}

/// Ranks that failed precede those that would not fit, and those that will not.
void find_first_failure(const Fleet& fleet, const std::vector<std::uint32_t>& rows, Decision& decision) {
  if (!decision.failed.empty()) {
    decision.fails_first = decision.failed.front();
    decision.fails_why = failure_of(fleet.rows[*decision.fails_first].summary);
    return;
  }
  std::optional<double> least;
  for (const std::uint32_t i : rows) {
    const auto after = failed_after(fleet.rows[i]);
    if (!after || (least && *least <= *after)) continue;
    least = after;
    decision.fails_first = i;
    decision.fails_why = "it exceeds " + text_of(*fleet.rows[i].summary.capacity) + when(" after ", *after);
  }
  if (decision.fails_first) return;
  for (const std::uint32_t i : rows) {
    const auto left = steps_left(fleet.rows[i]);
    if (!left || (least && *least <= *left)) continue;
    least = left;
    decision.fails_first = i;
    decision.fails_why = "what it leaks uses up its headroom in " +
                         counted(static_cast<std::uint64_t>(std::llround(std::min(*left, 1e15))), "step");
  }
}

}  // namespace

void find_decision(Fleet& fleet) {
  std::vector<std::uint32_t> rows = judged_rows(fleet), unknown;
  for (const std::uint32_t i : rows)
    if (!fleet.rows[i].headroom) unknown.push_back(fleet.rows[i].rank);
  const bool by_headroom = unknown.empty();
  Decision decision;
  find_failed(fleet, rows, decision);
  std::ranges::stable_sort(rows, {}, [&](std::uint32_t i) {
    const FleetRow& row = fleet.rows[i];
    const auto failed = std::ranges::find(decision.failed, i);
    // Ranks on one GPU have the same headroom.
    return std::tuple(failed - decision.failed.begin(), by_headroom ? *row.headroom : 0,
                      -static_cast<std::int64_t>(by_headroom ? row.summary.peak_reserved.count : used_by(row).count));
  });
  decision.row = rows.front();
  const FleetRow& decider = fleet.rows[decision.row];
  const TightestUse use = on_tightest(decider);
  decision.why = decision.failed.empty()
                     ? why_of(decider, by_headroom)
                     : "it ran " + failure_of(decider.summary) + "; it reserved " + text_of(use.reserved) +
                           " at its peak" +
                           (decider.headroom && use.capacity ? ", " + text_of(*use.capacity) + " is the limit" : "");
  if (decision.failed.empty() && !by_headroom && unknown.size() < rows.size()) {
    std::ranges::sort(unknown);
    decision.why +=
        "; headroom is not compared: the size of the device of " + ranks_text(unknown) + " is not known (--capacity)";
  }
  for (std::size_t i = 1; i < std::min(rows.size(), next_shown + 1); ++i) decision.next.push_back(rows[i]);
  for (const std::uint32_t i : rows)
    if (i != decision.row && fleet.rows[i].in_part()) decision.unsure.push_back(i);
  std::ranges::sort(decision.unsure);
  find_first_failure(fleet, rows, decision);
  fleet.decides = std::move(decision);
}

namespace {

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

/// None unless the ranks have two coordinates on the axis: what all have in common, as the name of a folder, tells
/// nothing.
std::optional<AxisImbalance> imbalance_on(const Fleet& fleet, const std::vector<std::uint32_t>& rows,
                                          const std::string& axis) {
  AxisImbalance result{.axis = axis};
  std::vector<std::vector<double>> groups;
  std::vector<double> all;
  for (const std::uint32_t i : rows) {
    const auto& coordinates = fleet.rows[i].summary.identity.coordinates;
    const auto at = std::ranges::find(coordinates, axis, &Coordinate::axis);
    if (at == coordinates.end() || at->at > fleet.world_size) continue;
    if (at->at >= groups.size()) groups.resize(at->at + 1U);
    all.push_back(static_cast<double>(fleet.rows[i].summary.peak_reserved.count));
    groups[at->at].push_back(all.back());
  }
  const double mean = mean_of(all);
  if (std::ranges::count_if(groups, [](const auto& group) { return !group.empty(); }) < 2) return std::nullopt;
  double total = 0, between = 0, most = 0, sum = 0, used = 0;
  for (const double value : all) total += (value - mean) * (value - mean);
  for (const std::vector<double>& group : groups) {
    const double its = mean_of(group);
    result.means.push_back({static_cast<std::uint64_t>(std::llround(its))});
    if (group.empty()) continue;
    between += static_cast<double>(group.size()) * (its - mean) * (its - mean);
    most = std::max(most, its);
    sum += its;
    ++used;
  }
  result.share_of_variance = total > 0 ? between / total : 0;
  result.max_over_mean = sum > 0 ? most / (sum / used) : 0;
  return result;
}

}  // namespace

void find_imbalance(Fleet& fleet) {
  // Lower bounds would say that their ranks need less than others.
  std::vector<std::uint32_t> rows = judged_rows(fleet);
  if (std::ranges::any_of(rows, [&](std::uint32_t i) { return !fleet.rows[i].in_part(); }))
    std::erase_if(rows, [&](std::uint32_t i) { return fleet.rows[i].in_part(); });
  std::vector<Bytes> peaks;
  double sum = 0;
  for (const std::uint32_t i : rows) {
    peaks.push_back(fleet.rows[i].summary.peak_reserved);
    sum += static_cast<double>(peaks.back().count);
  }
  std::ranges::sort(peaks);
  const double mean = sum / static_cast<double>(peaks.size());
  Imbalance& imbalance = fleet.imbalance;
  imbalance.max = peaks.back();
  imbalance.mean = {static_cast<std::uint64_t>(std::llround(mean))};
  imbalance.median = peaks[(peaks.size() - 1) / 2];
  // Exact, because ranks are few: the smallest value that 99 % of them do not exceed.
  imbalance.p99 = peaks[static_cast<std::size_t>(std::ceil(0.99 * static_cast<double>(peaks.size()))) - 1];
  imbalance.max_over_mean = mean > 0 ? static_cast<double>(imbalance.max.count) / mean : 1;
  std::vector<std::string> axes;
  for (const std::uint32_t i : rows)
    for (const Coordinate& at : fleet.rows[i].summary.identity.coordinates)
      if (std::ranges::find(axes, at.axis) == axes.end()) axes.push_back(at.axis);
  for (const std::string& axis : axes)
    if (auto on = imbalance_on(fleet, rows, axis)) imbalance.axes.push_back(*std::move(on));
}

}  // namespace memreel::fleet_parts
