// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <map>

#include "analyzer/fleet/fleet.h"
#include "formats/model/quantity.h"

namespace memreel::fleet_parts {
namespace {

using Rows = std::vector<std::uint32_t>;

constexpr double deviations = 5;             // of the median absolute deviation; normal values stay within three
constexpr double least_share = 0.02;         // of the median: less is not worth reporting
constexpr std::size_t least_neighbours = 5;  // for ranks that share no requests
constexpr std::size_t sites_shown = 5;
constexpr std::size_t sites_kept = 100;

/// Groups ranks that should need the same: a class and what deviates from it. Ranks of which no two are equal, since
/// each has its own data, are neighbours if they are replicas of each other on the mesh; without a mesh, all of them
/// are.
std::vector<Rows> neighbourhoods(const Fleet& fleet) {
  std::vector<Rows> by_class(fleet.classes.size());
  std::vector<bool> has_deviations(fleet.classes.size());
  for (std::uint32_t i = 0; i < fleet.classes.size(); ++i) {
    const RankClass& c = fleet.classes[i];
    if (c.deviates_from) has_deviations[*c.deviates_from] = true;
    Rows& rows = by_class[c.deviates_from.value_or(i)];
    rows.insert(rows.end(), c.rows.begin(), c.rows.end());
  }
  std::vector<Rows> result;
  std::map<std::string, Rows> alone;
  for (std::uint32_t i = 0; i < fleet.classes.size(); ++i) {
    if (by_class[i].empty() || fleet.classes[i].deviates_from) continue;
    if (fleet.classes[i].rows.size() > 1 || has_deviations[i]) {
      result.push_back(std::move(by_class[i]));
      continue;
    }
    Rows& rows = alone[stage_of(fleet.rows[by_class[i].front()])];
    rows.insert(rows.end(), by_class[i].begin(), by_class[i].end());
  }
  for (auto& [stage, rows] : alone)
    if (rows.size() >= least_neighbours) result.push_back(std::move(rows));
  return result;
}

double peak_of(const Fleet& fleet, std::uint32_t row) {
  return static_cast<double>(fleet.rows[row].summary.peak_reserved.count);
}

double median_of(std::vector<double> values) {
  std::ranges::sort(values);
  return values[(values.size() - 1) / 2];
}

Bytes leaked_by(const RankSummary& summary) {
  Bytes sum;
  for (const RankLeak& leak : summary.leaks) sum += leak.bytes;
  return sum;
}

/// Compares what two ranks hold at their peaks, by stack.
std::vector<SiteDelta> compare(const RankSummary& here, const RankSummary& there) {
  std::map<std::uint64_t, SiteDelta> sites;
  for (const RankSite& site : here.sites) sites[site.id] = {.frames = site.frames, .here = site.at_peak, .there = {}};
  for (const RankSite& site : there.sites) {
    SiteDelta& delta = sites[site.id];
    if (delta.frames.empty()) delta.frames = site.frames;
    delta.there = site.at_peak;
  }
  std::vector<SiteDelta> list;
  for (auto& [id, delta] : sites)
    if (delta.here != delta.there) list.push_back(std::move(delta));
  const auto size = [](const SiteDelta& d) { return std::max(d.here, d.there) - std::min(d.here, d.there); };
  std::ranges::stable_sort(list, [&](const SiteDelta& a, const SiteDelta& b) { return size(a) > size(b); });
  if (list.size() > sites_shown) list.resize(sites_shown);
  return list;
}

std::string why_of(const Fleet& fleet, const Outlier& outlier, const Rows& neighbours, Bytes leaked) {
  std::vector<std::uint32_t> ranks;
  for (const std::uint32_t row : neighbours)
    if (row != outlier.row) ranks.push_back(fleet.rows[row].rank);
  std::ranges::sort(ranks);
  std::string why = "reserves " + std::string(fleet.rows[outlier.row].bound()) +
                    text_of(Bytes{static_cast<std::uint64_t>(outlier.bytes < 0 ? -outlier.bytes : outlier.bytes)}) +
                    (outlier.bytes < 0 ? " less" : " more") + " than the median of its neighbours, " +
                    (ranks.size() > 1 ? "ranks " : "rank ") + text_of_ranks(ranks);
  if (leaked > 0_B) why += "; it leaks " + text_of(leaked);
  return why;
}

void judge_neighbours(Fleet& fleet, const Rows& rows) {
  if (rows.size() < 2) return;
  // Ranks that are known in part say nothing of what is usual, and can't be said to need less.
  const bool any_whole = std::ranges::any_of(rows, [&](std::uint32_t row) { return !fleet.rows[row].in_part(); });
  const auto counts = [&](std::uint32_t row) { return !any_whole || !fleet.rows[row].in_part(); };
  std::vector<double> peaks, distances, leaks, usual_peaks, usual_distances, usual_leaks;
  for (const std::uint32_t row : rows) {
    peaks.push_back(peak_of(fleet, row));
    leaks.push_back(static_cast<double>(leaked_by(fleet.rows[row].summary).count));
    if (!counts(row)) continue;
    usual_peaks.push_back(peaks.back());
    usual_leaks.push_back(leaks.back());
  }
  const double median = median_of(usual_peaks), usual_leak = median_of(usual_leaks);
  for (const double peak : peaks) distances.push_back(std::abs(peak - median));
  for (const double peak : usual_peaks) usual_distances.push_back(std::abs(peak - median));
  const double allowed = std::max(deviations * median_of(usual_distances), least_share * median);
  // The neighbour to compare with: the first one at the median.
  std::uint32_t middle = rows.front();
  for (const std::uint32_t row : rows)
    if (counts(row) && peak_of(fleet, row) == median && (peak_of(fleet, middle) != median || !counts(middle)))
      middle = row;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const bool leaks_alone = leaks[i] > 0 && usual_leak == 0;
    if (distances[i] <= allowed && !leaks_alone) continue;
    if (!counts(rows[i]) && peaks[i] < median) continue;
    Outlier outlier{.row = rows[i], .neighbour = middle, .bytes = static_cast<std::int64_t>(peaks[i] - median)};
    if (middle != rows[i]) outlier.sites = compare(fleet.rows[rows[i]].summary, fleet.rows[middle].summary);
    outlier.why = why_of(fleet, outlier, rows, leaks_alone ? leaked_by(fleet.rows[rows[i]].summary) : 0_B);
    fleet.outliers.push_back(std::move(outlier));
  }
}

}  // namespace

void find_outliers(Fleet& fleet) {
  for (const Rows& rows : neighbourhoods(fleet)) judge_neighbours(fleet, rows);
  std::ranges::sort(fleet.outliers, {}, &Outlier::row);
}

void find_leaks_and_sites(Fleet& fleet) {
  std::map<std::uint64_t, FleetSite> sites;
  for (std::uint32_t i = 0; i < fleet.rows.size(); ++i) {
    if (!fleet.rows[i].judged()) continue;
    const RankSummary& summary = fleet.rows[i].summary;
    for (const RankLeak& leak : summary.leaks) fleet.leaks.push_back({.row = i, .leak = leak});
    for (const RankSite& held : summary.sites) {
      if (held.at_peak == 0_B) continue;
      FleetSite& site = sites[held.id];
      if (site.frames.empty()) site.frames = held.frames;
      site.id = held.id;
      site.sum += held.at_peak;
      ++site.ranks;
      if (held.at_peak <= site.max) continue;
      site.max = held.at_peak;
      site.max_row = i;
    }
  }
  std::ranges::stable_sort(fleet.leaks, std::greater{}, [](const FleetLeak& l) { return l.leak.bytes; });
  for (auto& [id, site] : sites) fleet.sites.push_back(std::move(site));
  std::ranges::stable_sort(fleet.sites, std::greater{}, &FleetSite::sum);
  for (const FleetSite& site : fleet.sites)
    if (site.ranks < fleet.judged() && fleet.some_ranks.size() < sites_kept) fleet.some_ranks.push_back(site);
  if (fleet.sites.size() > sites_kept) fleet.sites.resize(sites_kept);
}

namespace {

// Two pipeline stages share half of their chunks; a rank that has one longer step, or a leak, shares four fifths with
// its replicas.
constexpr double least_similarity = 0.5;
// A deviation is rarer than what it deviates from.
constexpr std::size_t times_larger = 2;
// Of 12 steps of DistributedDataParallel on four GPUs, replicas shared 0.989 of their chunks.
constexpr double least_similarity_of_replicas = 0.9;
constexpr std::array<std::string_view, 4> replica_axes{"dp", "fsdp", "ddp", "replica"};

bool is_of_stage(const Fleet& fleet, const RankClass& c, const std::string& stage) {
  return std::ranges::any_of(c.rows, [&](std::uint32_t row) { return stage_of(fleet.rows[row]) == stage; });
}

std::span<const RequestChunk> sketch_of(const Fleet& fleet, const RankClass& c) {
  return fleet.rows[c.rows.front()].summary.requests.sketch;
}

void add(const Fleet& fleet, RankClass& c, std::uint32_t row) {
  const Bytes peak = fleet.rows[row].summary.peak_reserved;
  if (c.rows.empty() || peak > c.peak_reserved) {
    c.peak_reserved = peak;
    c.heaviest = row;
  }
  c.rows.push_back(row);
}

/// Joins ranks that make the same requests and free the same blocks, some of these earlier or later: a thread such as
/// NCCL's watchdog frees a collective's tensors when it gets to it.
void join_replicas(Fleet& fleet) {
  std::vector<std::uint32_t> by_size, into;
  for (std::uint32_t i = 0; i < fleet.classes.size(); ++i) by_size.push_back(i);
  into = by_size;
  std::ranges::stable_sort(by_size, std::greater{}, [&](std::uint32_t i) { return fleet.classes[i].rows.size(); });
  std::map<std::uint64_t, std::uint32_t> largest;  // by hash
  for (const std::uint32_t i : by_size) {
    const std::uint64_t untimed = fleet.rows[fleet.classes[i].rows.front()].summary.requests.untimed;
    if (untimed == 0) continue;
    const std::uint32_t other = largest.try_emplace(untimed, i).first->second;
    if (similarity(sketch_of(fleet, fleet.classes[i]), sketch_of(fleet, fleet.classes[other])) >=
        least_similarity_of_replicas)
      into[i] = other;
  }
  std::map<std::uint32_t, std::uint32_t> number;  // in `joined`, by the class that others join
  std::vector<RankClass> joined;
  for (std::uint32_t row = 0; row < fleet.rows.size(); ++row) {
    std::optional<std::uint32_t>& klass = fleet.rows[row].klass;
    if (!klass) continue;
    const auto [found, is_new] = number.try_emplace(into[*klass], static_cast<std::uint32_t>(joined.size()));
    if (is_new) joined.emplace_back();
    add(fleet, joined[found->second], row);
    klass = found->second;
  }
  fleet.classes = std::move(joined);
}

/// Compares small classes with larger ones. Among many equally large ones, none is a deviation.
void find_deviations(Fleet& fleet) {
  std::vector<std::uint32_t> large;
  for (std::uint32_t i = 0; i < fleet.classes.size(); ++i)
    if (fleet.classes[i].rows.size() >= times_larger) large.push_back(i);
  for (RankClass& small : fleet.classes) {
    const std::string stage = stage_of(fleet.rows[small.rows.front()]);
    for (const std::uint32_t i : large) {
      const RankClass& other = fleet.classes[i];
      if (other.rows.size() < times_larger * small.rows.size() || !is_of_stage(fleet, other, stage)) continue;
      const double alike = similarity(sketch_of(fleet, small), sketch_of(fleet, other));
      if (alike < least_similarity || alike <= small.similarity) continue;
      small.similarity = alike;
      small.deviates_from = i;
    }
  }
  // A deviation from a deviation deviates from the original.
  for (RankClass& c : fleet.classes)
    while (c.deviates_from && fleet.classes[*c.deviates_from].deviates_from)
      c.deviates_from = fleet.classes[*c.deviates_from].deviates_from;
}

}  // namespace

std::string stage_of(const FleetRow& row) {
  std::string stage;
  for (const Coordinate& at : row.summary.identity.coordinates)
    if (std::ranges::find(replica_axes, at.axis) == replica_axes.end())
      stage += (stage.empty() ? "" : " ") + at.axis + std::to_string(at.at);
  return stage;
}

void find_classes(Fleet& fleet) {
  std::map<std::uint64_t, std::uint32_t> by_hash;
  std::optional<std::uint32_t> judged;
  for (std::uint32_t i = 0; i < fleet.rows.size(); ++i) {
    FleetRow& row = fleet.rows[i];
    if (!row.summary.usable() || judged == row.rank) continue;
    judged = row.rank;
    const auto [found, is_new] =
        by_hash.try_emplace(row.summary.requests.whole, static_cast<std::uint32_t>(fleet.classes.size()));
    if (is_new) fleet.classes.emplace_back();
    add(fleet, fleet.classes[found->second], i);
    row.klass = found->second;
  }
  join_replicas(fleet);
  find_deviations(fleet);
}

}  // namespace memreel::fleet_parts
