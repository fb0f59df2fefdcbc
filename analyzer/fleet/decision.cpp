#include <algorithm>
#include <cmath>

#include "analyzer/fleet/fleet_parts.h"
#include "formats/model/quantity.h"

namespace memreel::fleet_parts {
namespace {

constexpr std::size_t next_shown = 10;

std::string signed_text(std::int64_t bytes) {
  const Bytes size{static_cast<std::uint64_t>(bytes < 0 ? -bytes : bytes)};
  return (bytes < 0 ? "-" : "") + text_of(size);
}

std::vector<std::uint32_t> judged_rows(const Fleet& fleet) {
  std::vector<std::uint32_t> rows;
  for (std::uint32_t i = 0; i < fleet.rows.size(); ++i)
    if (fleet.rows[i].judged()) rows.push_back(i);
  return rows;
}

std::string doubt_of(const RankSummary& s) {
  return s.status == RankStatus::ok
             ? ""
             : "; its recording is " + std::string(name_of(s.status)) + ", so this is a lower bound";
}

std::string why_of(const FleetRow& row, bool by_headroom) {
  const RankSummary& s = row.summary;
  std::string why = by_headroom
                        ? "least headroom: " + signed_text(*row.headroom) + " of " + text_of(*s.capacity) + " left, "
                        : "it reserves most: ";
  why += text_of(s.peak_reserved) + (by_headroom ? " reserved at its peak" : " at its peak");
  if (s.other > 0_B) why += ", " + text_of(s.other) + " beside the framework";
  return why + doubt_of(s);
}

/// When a recording exceeded the capacity, or failed, in seconds since its beginning.
std::optional<double> failed_after(const FleetRow& row) {
  const RankSummary& s = row.summary;
  if (!s.capacity) return std::nullopt;
  const double span = static_cast<double>((s.end - s.begin).count()) * 1e-9;
  for (std::size_t i = 0; i < s.reserved.size(); ++i)
    if (s.reserved[i] + s.other > *s.capacity)
      return span * static_cast<double>(i) / static_cast<double>(s.reserved.size());
  return std::nullopt;
}

/// Steps until the leaks have used up the headroom.
std::optional<double> steps_left(const FleetRow& row) {
  double growth = 0;
  for (const RankLeak& leak : row.summary.leaks) growth += leak.growth_bytes_per_step;
  if (growth <= 0 || !row.headroom || *row.headroom < 0) return std::nullopt;
  return static_cast<double>(*row.headroom) / growth;
}

/// Ranks that do not fit precede those that will not.
void find_first_failure(const Fleet& fleet, const std::vector<std::uint32_t>& rows, Decision& decision) {
  std::optional<double> least;
  for (const std::uint32_t i : rows) {
    const auto after = failed_after(fleet.rows[i]);
    if (!after || (least && *least <= *after)) continue;
    least = after;
    decision.fails_first = i;
    decision.fails_why = "it exceeds " + text_of(*fleet.rows[i].summary.capacity) + " after " + text_of_seconds(*after);
  }
  if (decision.fails_first) return;
  for (const std::uint32_t i : rows) {
    const auto left = steps_left(fleet.rows[i]);
    if (!left || (least && *least <= *left)) continue;
    least = left;
    decision.fails_first = i;
    decision.fails_why = "what it leaks uses up its headroom in " +
                         text_of(static_cast<std::uint64_t>(std::llround(std::min(*left, 1e15)))) + " steps";
  }
}

}  // namespace

void find_decision(Fleet& fleet) {
  std::vector<std::uint32_t> rows = judged_rows(fleet);
  const bool by_headroom =
      std::ranges::all_of(rows, [&](std::uint32_t i) { return fleet.rows[i].headroom.has_value(); });
  std::ranges::stable_sort(rows, {}, [&](std::uint32_t i) {
    const FleetRow& row = fleet.rows[i];
    return by_headroom ? *row.headroom
                       : -static_cast<std::int64_t>(row.summary.peak_reserved.count + row.summary.other.count);
  });
  Decision decision{.row = rows.front(), .why = why_of(fleet.rows[rows.front()], by_headroom)};
  for (std::size_t i = 1; i < std::min(rows.size(), next_shown + 1); ++i) decision.next.push_back(rows[i]);
  find_first_failure(fleet, rows, decision);
  fleet.decides = std::move(decision);
}

namespace {

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

AxisImbalance imbalance_on(const Fleet& fleet, const std::vector<std::uint32_t>& rows, const std::string& axis) {
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
  const std::vector<std::uint32_t> rows = judged_rows(fleet);
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
  for (const std::string& axis : axes) imbalance.axes.push_back(imbalance_on(fleet, rows, axis));
}

}  // namespace memreel::fleet_parts
