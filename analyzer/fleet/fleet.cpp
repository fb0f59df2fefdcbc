#include "analyzer/fleet/fleet.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "analyzer/fleet/fleet_parts.h"

namespace memreel {
namespace {

bool ran_at_once(const RankSummary& a, const RankSummary& b) { return a.begin < b.end && b.begin < a.end; }

/// Whether `a` is the better of two recordings of one rank: complete before incomplete, then the later attempt. Of two
/// that ran at the same time, the one with more requests.
bool is_better(const RankSummary& a, const RankSummary& b) {
  const auto trust = [](const RankSummary& s) { return s.usable() ? 10 - static_cast<int>(s.status) : 0; };
  if (trust(a) != trust(b)) return trust(a) > trust(b);
  if (!ran_at_once(a, b) && a.begin != b.begin) return a.begin > b.begin;
  if (a.identity.attempt != b.identity.attempt) return a.identity.attempt > b.identity.attempt;
  return std::tuple(a.allocations, a.events, b.file) > std::tuple(b.allocations, b.events, a.file);
}

/// The same file counts once, however often and through whichever shard it came.
void drop_repetitions(std::vector<RankSummary>& summaries) {
  std::ranges::sort(summaries, {}, [](const RankSummary& s) { return std::tie(s.file, s.checksum, s.bytes); });
  const auto same = [](const RankSummary& a, const RankSummary& b) {
    return a.file == b.file && a.checksum == b.checksum && a.bytes == b.bytes;
  };
  summaries.erase(std::unique(summaries.begin(), summaries.end(), same), summaries.end());
}

/// Where a name gives the position on the mesh and nothing gives the rank, the mesh does.
void place_on(const Mesh& mesh, std::vector<RankSummary>& summaries) {
  for (RankSummary& summary : summaries)
    if (!summary.identity.rank) summary.identity.rank = mesh.rank_at(summary.identity.coordinates);
}

/// Processes of one rank that hold memory at the same time, none of them less than a tenth of another, are not attempts
/// at the same work: a launched process started workers in turn, or these are two jobs. The rank does not distinguish
/// them.
void forget_shared_ranks(std::vector<RankSummary>& summaries) {
  constexpr std::uint64_t helper = 10;  // a helper process of a rank holds less than 1/10 of the rank's memory
  const auto are_two = [](const RankSummary& a, const RankSummary& b) {
    const auto [less, more] = std::minmax(a.peak_live.count, b.peak_live.count);
    return std::tie(a.identity.host, a.identity.process) != std::tie(b.identity.host, b.identity.process) &&
           ran_at_once(a, b) && less >= more / helper;
  };
  std::map<std::uint32_t, std::vector<RankSummary*>> recorded;
  for (RankSummary& s : summaries)
    if (s.identity.rank && s.identity.process != 0 && s.has_memory) recorded[*s.identity.rank].push_back(&s);
  for (const auto& [rank, group] : recorded) {
    std::set<RankSummary*> shared;
    for (std::size_t i = 0; i < group.size(); ++i)
      for (std::size_t k = i + 1; k < group.size(); ++k)
        if (are_two(*group[i], *group[k])) shared.insert({group[i], group[k]});
    for (RankSummary* const s : shared)
      s->identity.rank = s->identity.world_size = s->identity.local_rank = std::nullopt;
  }
}

/// The launcher of the ranks may also have been recorded: it has no rank where others have one, and no memory.
std::vector<std::string> take_launchers(std::vector<RankSummary>& summaries) {
  std::vector<std::string> files;
  if (std::ranges::none_of(summaries, [](const RankSummary& s) { return s.identity.rank.has_value(); })) return files;
  const auto first = std::stable_partition(summaries.begin(), summaries.end(), [](const RankSummary& s) {
    return s.identity.rank || s.has_memory || s.status != RankStatus::ok;
  });
  for (auto at = first; at != summaries.end(); ++at) files.push_back(std::move(at->file));
  summaries.erase(first, summaries.end());
  return files;
}

/// Recordings without a rank get the free numbers, in order of their names.
std::vector<FleetRow> rows_of(std::vector<RankSummary> summaries) {
  std::set<std::uint32_t> taken;
  for (const RankSummary& summary : summaries)
    if (summary.identity.rank) taken.insert(*summary.identity.rank);
  std::uint32_t next = 0;
  std::vector<FleetRow> rows;
  for (RankSummary& summary : summaries) {
    FleetRow row{.summary = std::move(summary)};
    row.rank_assumed = !row.summary.identity.rank;
    if (row.rank_assumed) {
      while (taken.contains(next)) ++next;
      row.rank = next++;
    } else {
      row.rank = *row.summary.identity.rank;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

/// One recording of each rank is judged; the others are duplicates.
void find_duplicates(std::vector<FleetRow>& rows) {
  std::ranges::stable_sort(rows, [](const FleetRow& a, const FleetRow& b) {
    if (a.rank != b.rank) return a.rank < b.rank;
    return is_better(a.summary, b.summary);
  });
  for (std::size_t i = 1; i < rows.size(); ++i) {
    if (rows[i].rank != rows[i - 1].rank) continue;
    std::size_t best = i - 1;
    while (rows[best].summary.status == RankStatus::duplicate) --best;
    if (!rows[i].summary.usable()) continue;  // keeps the status that says why
    rows[i].summary.status = RankStatus::duplicate;
    const std::string& judged = rows[best].summary.file;
    rows[i].summary.reason = judged.substr(judged.rfind('/') + 1) + " is judged for this rank";
  }
}

std::uint32_t world_of(const std::vector<FleetRow>& rows, const FleetOptions& options) {
  if (options.world_size) return *options.world_size;
  if (options.mesh) return options.mesh->size();
  std::uint32_t world = 0;
  for (const FleetRow& row : rows) {
    world = std::max(world, row.rank + 1);
    if (row.summary.status != RankStatus::duplicate)
      world = std::max(world, row.summary.identity.world_size.value_or(0));
  }
  return world;
}

Result<void> check_world(const std::vector<FleetRow>& rows, std::uint32_t world, const FleetOptions& options) {
  if (options.mesh && options.mesh->size() != world)
    return Error{
        .what = "the mesh has " + std::to_string(options.mesh->size()) + " ranks, not " + std::to_string(world),
        .where = "--mesh"};
  for (const FleetRow& row : rows)
    if (row.rank >= world)
      return Error{.what = "is of rank " + std::to_string(row.rank) + ", beyond a world of " + std::to_string(world),
                   .where = row.summary.file,
                   .remedy = "leave it out, or give the right --world-size or --mesh"};
  if (world > most_ranks)
    return Error{.what = "a rank beyond " + std::to_string(most_ranks) + " is implausible",
                 .remedy = "give the position of the rank in names with --rank-pattern"};
  return {};
}

void add_missing(Fleet& fleet) {
  std::set<std::uint32_t> there, usable;
  for (const FleetRow& row : fleet.rows) {
    there.insert(row.rank);
    if (row.summary.usable()) usable.insert(row.rank);
  }
  for (std::uint32_t rank = 0; rank < fleet.world_size; ++rank) {
    if (!usable.contains(rank)) fleet.missing.push_back(rank);
    if (there.contains(rank)) continue;
    FleetRow row{.summary = {}, .rank = rank};
    row.summary.status = RankStatus::missing;
    row.summary.reason = "no recording";
    row.summary.identity.rank = rank;
    fleet.rows.push_back(std::move(row));
  }
  std::ranges::stable_sort(fleet.rows, {}, &FleetRow::rank);
}

void place_rows(Fleet& fleet, const FleetOptions& options) {
  for (FleetRow& row : fleet.rows) {
    RankSummary& s = row.summary;
    if (options.mesh) s.identity.coordinates = options.mesh->coordinates(row.rank);
    if (options.capacity) s.capacity = options.capacity;
    if (s.has_memory && s.capacity)
      row.headroom = static_cast<std::int64_t>(s.capacity->count - s.peak_reserved.count - s.other.count);
  }
}

}  // namespace

std::size_t Fleet::judged() const { return static_cast<std::size_t>(std::ranges::count_if(rows, &FleetRow::judged)); }

bool Fleet::complete() const {
  return missing.empty() && std::ranges::all_of(rows, [](const FleetRow& row) {
           return row.summary.status == RankStatus::ok || row.summary.status == RankStatus::duplicate;
         });
}

Result<Fleet> assemble_fleet(std::vector<RankSummary> summaries, const FleetOptions& options) {
  drop_repetitions(summaries);
  if (options.mesh) place_on(*options.mesh, summaries);
  forget_shared_ranks(summaries);
  Fleet fleet{.launchers = take_launchers(summaries)};
  fleet.rows = rows_of(std::move(summaries));
  find_duplicates(fleet.rows);
  fleet.world_size = world_of(fleet.rows, options);
  if (const auto fine = check_world(fleet.rows, fleet.world_size, options); !fine) return fine.error();
  add_missing(fleet);
  place_rows(fleet, options);
  fleet_parts::find_classes(fleet);
  if (fleet.classes.empty()) return fleet;
  fleet_parts::find_decision(fleet);
  fleet_parts::find_imbalance(fleet);
  fleet_parts::find_outliers(fleet);
  fleet_parts::find_leaks_and_sites(fleet);
  return fleet;
}

std::string text_of_ranks(const std::vector<std::uint32_t>& ranks) {
  std::string text;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    text += (text.empty() ? "" : ", ") + std::to_string(ranks[i]);
    if (last > i) text += (last == i + 1 ? ", " : "-") + std::to_string(ranks[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace memreel
