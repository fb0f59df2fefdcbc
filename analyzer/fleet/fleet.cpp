// SPDX-License-Identifier: Apache-2.0
#include "analyzer/fleet/fleet.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <tuple>

#include "analyzer/fleet/inputs.h"
#include "formats/model/quantity.h"
#include "formats/model/stack_text.h"

namespace memreel {
namespace {

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

/// A number that is the same in all names is of a run, or there by chance: run-tp8/rank0.reel, or a folder of
/// mkdtemp().
void forget_common_coordinates(std::vector<RankSummary>& summaries) {
  std::map<std::string, std::set<std::uint32_t>> values;
  for (const RankSummary& s : summaries)
    for (const Coordinate& at : s.identity.coordinates) values[at.axis].insert(at.at);
  for (RankSummary& s : summaries)
    std::erase_if(s.identity.coordinates, [&](const Coordinate& at) { return values[at.axis].size() < 2; });
}

/// Processes of one rank that hold memory at the same time are not attempts at the same work: a launched process
/// started workers in turn. The rank does not distinguish them.
void forget_shared_ranks(std::vector<RankSummary>& summaries) {
  std::map<std::uint32_t, std::vector<RankSummary*>> recorded;
  for (RankSummary& s : summaries)
    if (s.identity.rank && s.held_memory()) recorded[*s.identity.rank].push_back(&s);
  for (const auto& [rank, group] : recorded) {
    std::set<RankSummary*> shared;
    for (std::size_t i = 0; i < group.size(); ++i)
      for (std::size_t k = i + 1; k < group.size(); ++k)
        if (are_two_processes(*group[i], *group[k])) shared.insert({group[i], group[k]});
    for (RankSummary* const s : shared)
      s->identity.rank = s->identity.world_size = s->identity.local_rank = std::nullopt;
  }
}

using Process = std::pair<std::string, std::uint64_t>;  // host and id
Process process_of(const RankSummary& s) { return {s.identity.host, s.identity.process}; }

/// A recording, its dumps, and a snapshot of the same process are of one rank.
void join_processes(std::vector<RankSummary>& summaries) {
  std::map<Process, std::uint32_t> ranks;
  for (const RankSummary& s : summaries)
    if (s.identity.process != 0 && s.identity.rank) ranks.try_emplace(process_of(s), *s.identity.rank);
  for (RankSummary& s : summaries)
    if (const auto known = ranks.find(process_of(s)); !s.identity.rank && known != ranks.end())
      s.identity.rank = known->second;
}

/// The launcher of the ranks may also have been recorded: it has no rank where others have one, and no memory.
std::vector<std::string> take_launchers(std::vector<RankSummary>& summaries) {
  std::vector<std::string> files;
  if (std::ranges::none_of(summaries, [](const RankSummary& s) { return s.identity.rank.has_value(); })) return files;
  const auto first = std::stable_partition(summaries.begin(), summaries.end(), [](const RankSummary& s) {
    return s.identity.rank || s.held_memory() || s.status != RankStatus::ok;
  });
  for (auto at = first; at != summaries.end(); ++at) files.push_back(std::move(at->file));
  summaries.erase(first, summaries.end());
  return files;
}

/// Processes without a rank get the free numbers, in order of their names.
std::vector<FleetRow> rows_of(std::vector<RankSummary> summaries) {
  std::set<std::uint32_t> taken;
  for (const RankSummary& summary : summaries)
    if (summary.identity.rank) taken.insert(*summary.identity.rank);
  std::ranges::stable_sort(summaries, natural_less, &RankSummary::file);
  std::uint32_t next = 0;
  std::map<Process, std::uint32_t> numbered;
  std::vector<FleetRow> rows;
  for (RankSummary& summary : summaries) {
    FleetRow row{.summary = std::move(summary)};
    const Identity& identity = row.summary.identity;
    row.rank_assumed = !identity.rank;
    if (identity.rank) {
      row.rank = *identity.rank;
    } else if (const auto known = numbered.find(process_of(row.summary)); known != numbered.end()) {
      row.rank = known->second;
    } else {
      while (taken.contains(next)) ++next;
      row.rank = next++;
      if (identity.process != 0) numbered[process_of(row.summary)] = row.rank;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

/// Complete recordings before incomplete ones; 0: unusable.
int trust_in(const RankSummary& summary) { return summary.usable() ? 10 - static_cast<int>(summary.status) : 0; }

/// Puts the recording of a rank that is to be judged first: of the most complete ones the latest attempt, and of those
/// that ran at the same time as that one the one with most requests.
void put_best_first(std::span<FleetRow> of_rank) {
  const auto by_time = [](const FleetRow& row) {
    const RankSummary& s = row.summary;
    return std::tuple(trust_in(s), s.begin, s.identity.attempt, s.allocations, s.events);
  };
  std::ranges::stable_sort(of_rank, std::greater(), by_time);
  const RankSummary& latest = of_rank.front().summary;
  auto best = of_rank.begin();
  const auto by_work = [](const RankSummary& s) { return std::tuple(s.identity.attempt, s.allocations, s.events); };
  for (auto row = of_rank.begin(); row != of_rank.end(); ++row) {
    const bool competes = trust_in(row->summary) == trust_in(latest) && ran_at_once(row->summary, latest);
    if (competes && by_work(row->summary) > by_work(best->summary)) best = row;
  }
  std::rotate(of_rank.begin(), best, std::next(best));
}

/// One recording of each rank is judged; the others are duplicates. `rows` are sorted by file.
void find_duplicates(std::vector<FleetRow>& rows) {
  std::ranges::stable_sort(rows, {}, &FleetRow::rank);
  for (auto first = rows.begin(); first != rows.end();) {
    const auto last = std::find_if(first, rows.end(), [&](const FleetRow& row) { return row.rank != first->rank; });
    put_best_first({first, last});
    first = last;
  }
  for (std::size_t i = 1; i < rows.size(); ++i) {
    if (rows[i].rank != rows[i - 1].rank) continue;
    std::size_t best = i - 1;
    while (rows[best].summary.status == RankStatus::duplicate) --best;
    if (!rows[i].summary.usable()) continue;  // keeps the status that says why
    rows[i].summary.status = RankStatus::duplicate;
    const std::string& judged = rows[best].summary.file;
    rows[i].summary.reason = std::string(base_name(judged)) + " is judged for this rank";
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
    return Error{.what = "the mesh has " + counted(options.mesh->size(), "rank") + ", not " + std::to_string(world),
                 .where = "--mesh"};
  for (const FleetRow& row : rows) {
    const auto& stated = row.summary.identity.world_size;
    if ((options.world_size || options.mesh) && row.summary.status != RankStatus::duplicate &&
        stated.value_or(world) != world)
      return Error{
          .what = "was one of " + counted(*stated, "rank") + " by its launcher, not of " + std::to_string(world),
          .where = row.summary.file,
          .remedy = std::string("leave out ") + (options.world_size ? "--world-size" : "--mesh") +
                    ", or choose a job with --job"};
    if (row.rank >= world)
      return Error{.what = "is of rank " + std::to_string(row.rank) + ", beyond a world of " + std::to_string(world),
                   .where = row.summary.file,
                   .remedy = "leave it out, or give the right --world-size or --mesh"};
  }
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

/// The most that processes reserve together, to the resolution of their timelines.
Bytes peak_together(const std::vector<const RankSummary*>& processes) {
  std::vector<std::pair<Nanoseconds, std::int64_t>> changes;
  for (const RankSummary* const s : processes) {
    std::int64_t before = 0;
    const auto columns = static_cast<std::int64_t>(s->reserved.size());
    for (std::int64_t i = 0; i < columns; ++i) {
      const auto now = static_cast<std::int64_t>(s->reserved[static_cast<std::size_t>(i)].count);
      changes.emplace_back(s->begin + (s->end - s->begin) / columns * i, now - before);
      before = now;
    }
    changes.emplace_back(s->end, -before);
  }
  std::ranges::sort(changes);  // at one instant, what is released first
  std::int64_t sum = 0, most = 0;
  for (const auto& [time, change] : changes) most = std::max(most, sum += change);
  return {static_cast<std::uint64_t>(most)};
}

/// Ranks of a host that use a GPU of the same number at the same time, and of which the samples of one show what the
/// other uses: numbers alone may be of different GPUs, each the first that its process may see.
std::vector<std::vector<std::uint32_t>> sharing_rows(const Fleet& fleet) {
  using Place = std::tuple<std::string, std::string, std::int32_t>;
  std::map<Place, std::vector<std::uint32_t>> places;
  for (std::uint32_t i = 0; i < fleet.rows.size(); ++i) {
    const RankSummary& s = fleet.rows[i].summary;
    if (fleet.rows[i].judged() && !s.identity.host.empty())
      places[{s.identity.host, s.identity.visible_devices, s.device}].push_back(i);
  }
  std::vector<std::vector<std::uint32_t>> sharing(fleet.rows.size());
  const auto shows = [](const RankSummary& a, const RankSummary& b) {
    return b.peak_reserved > 0_B && a.beside.count >= b.peak_reserved.count / 10 * 9;
  };
  for (const auto& [place, rows] : places)
    for (const std::uint32_t a : rows)
      for (const std::uint32_t b : rows) {
        const RankSummary &of_a = fleet.rows[a].summary, &of_b = fleet.rows[b].summary;
        if (a != b && ran_at_once(of_a, of_b) && (shows(of_a, of_b) || shows(of_b, of_a))) sharing[a].push_back(b);
      }
  return sharing;
}

std::int64_t left_of(Bytes capacity, Bytes used) { return static_cast<std::int64_t>(capacity.count - used.count); }

/// On a device of another size than the recorded one, only what the process itself has counts.
Bytes beside_of(Bytes other, Bytes beside, const FleetOptions& options) {
  return options.capacity ? other : std::max(other, beside);
}

/// Ranks on one GPU have one headroom.
void share_headroom(Fleet& fleet, const FleetOptions& options) {
  if (options.capacity) return;
  const std::vector<std::vector<std::uint32_t>> sharing = sharing_rows(fleet);
  std::map<std::vector<std::uint32_t>, Bytes> known;  // of rows that share, which mostly are the same for all of them
  for (std::uint32_t i = 0; i < fleet.rows.size(); ++i) {
    FleetRow& row = fleet.rows[i];
    if (sharing[i].empty() || !row.headroom || row.tightest != row.summary.device) continue;
    std::vector<const RankSummary*> together{&row.summary};
    Bytes of_others;
    for (const std::uint32_t other : sharing[i]) {
      together.push_back(&fleet.rows[other].summary);
      of_others += together.back()->peak_reserved;
      row.shares.push_back(fleet.rows[other].rank);
    }
    const Bytes neither = row.beside - std::min(row.beside, of_others);
    std::vector<std::uint32_t> rows = sharing[i];
    rows.insert(std::ranges::upper_bound(rows, i), i);
    const auto [peak, is_new] = known.try_emplace(std::move(rows));
    if (is_new) peak->second = peak_together(together);
    row.headroom = std::min(*row.headroom, left_of(*row.summary.capacity, peak->second + neither));
  }
  for (std::uint32_t i = 0; i < fleet.rows.size(); ++i)
    for (const std::uint32_t other : sharing[i])
      if (fleet.rows[i].headroom && fleet.rows[other].headroom)
        fleet.rows[i].headroom = std::min(*fleet.rows[i].headroom, *fleet.rows[other].headroom);
}

void place_rows(Fleet& fleet, const FleetOptions& options) {
  for (FleetRow& row : fleet.rows) {
    RankSummary& s = row.summary;
    if (options.capacity) s.capacity = options.capacity;
    row.tightest = s.device;
    row.beside = beside_of(s.other, s.beside, options);
    if (!s.has_memory) continue;
    if (s.capacity) row.headroom = left_of(*s.capacity, s.peak_reserved + row.beside);
    for (RankDevice& device : s.devices) {
      if (options.capacity) device.capacity = options.capacity;
      if (!device.capacity) continue;
      const Bytes beside = beside_of(device.other, device.beside, options);
      const std::int64_t left = left_of(*device.capacity, device.peak_reserved + beside);
      if (row.headroom && left >= *row.headroom) continue;
      row.headroom = left;
      row.tightest = device.device;
      row.beside = beside;
    }
  }
  share_headroom(fleet, options);
}

}  // namespace

TightestUse on_tightest(const FleetRow& row) {
  const RankSummary& s = row.summary;
  const auto other = std::ranges::find(s.devices, row.tightest, &RankDevice::device);
  if (row.tightest == s.device || other == s.devices.end()) return {s.peak_reserved, s.capacity};
  return {other->peak_reserved, other->capacity};
}

std::size_t Fleet::judged() const { return static_cast<std::size_t>(std::ranges::count_if(rows, &FleetRow::judged)); }

bool Fleet::leaks_are_judged() const {
  return std::ranges::any_of(rows,
                             [](const FleetRow& row) { return row.judged() && row.summary.leaks_not_judged.empty(); });
}

bool Fleet::complete() const {
  return missing.empty() && std::ranges::all_of(rows, [](const FleetRow& row) {
           return row.summary.status == RankStatus::ok || row.summary.status == RankStatus::duplicate;
         });
}

Result<Fleet> assemble_fleet(std::vector<RankSummary> summaries, const FleetOptions& options) {
  drop_repetitions(summaries);
  if (options.mesh)
    place_on(*options.mesh, summaries);
  else
    forget_common_coordinates(summaries);
  forget_shared_ranks(summaries);
  join_processes(summaries);
  Fleet fleet{.heap = options.heap, .launchers = take_launchers(summaries)};
  fleet.rows = rows_of(std::move(summaries));
  find_duplicates(fleet.rows);
  fleet.world_size = world_of(fleet.rows, options);
  if (const auto fine = check_world(fleet.rows, fleet.world_size, options); !fine) return fine.error();
  add_missing(fleet);
  if (options.mesh)
    for (FleetRow& row : fleet.rows) row.summary.identity.coordinates = options.mesh->coordinates(row.rank);
  fleet_parts::find_classes(fleet);
  place_rows(fleet, options);
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

namespace {

constexpr std::size_t longest_ranks = 60;

/// " (pp 1, dp 2, node100, GPU 6)"
std::string place_of(const FleetRow& row) {
  std::string text;
  for (const Coordinate& at : row.summary.identity.coordinates)
    text += (text.empty() ? "" : ", ") + at.axis + " " + std::to_string(at.at);
  if (!row.summary.identity.host.empty())
    text += (text.empty() ? "" : ", ") + row.summary.identity.host + ", GPU " + std::to_string(row.tightest);
  return text.empty() ? "" : " (" + shortened(std::move(text), 50) + ")";
}

std::string failures_of(const Fleet& fleet, const Decision& decision) {
  if (decision.failed.empty()) return "";
  std::string text = ranks_text(ranks_of(fleet, decision.failed), longest_ranks) + " ran out of memory";
  if (decision.failed.size() > 1)
    text += ", rank " + std::to_string(fleet.rows[decision.failed.front()].rank) + " first";
  if (!decision.near.empty()) text += ", " + ranks_text(ranks_of(fleet, decision.near), longest_ranks) + " came close";
  return text + "; ";
}

}  // namespace

std::string ranks_text(const std::vector<std::uint32_t>& ranks, std::size_t most) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + shortened(text_of_ranks(ranks), most);
}

std::string shortened(std::string text, std::size_t most) {
  if (text.size() <= most) return text;
  while (most > 3 && (static_cast<unsigned char>(text[most - 3]) & 0xC0U) == 0x80) --most;
  return text.substr(0, most - 3) + "...";
}

std::vector<std::uint32_t> ranks_of(const Fleet& fleet, const std::vector<std::uint32_t>& rows) {
  std::vector<std::uint32_t> ranks;
  for (const std::uint32_t row : rows) ranks.push_back(fleet.rows[row].rank);
  std::ranges::sort(ranks);
  return ranks;
}

std::string headline_of(const Fleet& fleet) {
  constexpr std::size_t longest_list = 240;
  const auto world = static_cast<std::uint64_t>(fleet.world_size);
  std::string text = fleet.job.empty() ? "" : "job " + fleet.job + ": ";
  if (!fleet.heap.empty()) text += "heap " + fleet.heap + " only: ";
  if (fleet.decides) text += failures_of(fleet, *fleet.decides);
  if (fleet.missing.empty())
    text += (world == 1 ? "" : "all ") + counted(world, "rank");
  else
    text += text_of(std::uint64_t{fleet.missing.size()}) + " of " + text_of(world) +
            " ranks missing: " + shortened(text_of_ranks(fleet.missing), longest_list);
  if (fleet.decides && !fleet.decides->unsure.empty()) {
    const std::vector<std::uint32_t> unsure = ranks_of(fleet, fleet.decides->unsure);
    text += "; " + ranks_text(unsure, longest_ranks) + (unsure.size() == 1 ? " is" : " are") +
            " known in part and may decide instead";
  }
  const std::size_t classes = fleet.classes.size();
  if (classes > 0)
    text += "; " + std::to_string(classes) + (classes == 1 ? " class" : " classes") + " of equal requests";
  return text;
}

std::string decision_of(const Fleet& fleet) {
  if (!fleet.decides) return "";
  const FleetRow& row = fleet.rows[fleet.decides->row];
  return "rank " + std::to_string(row.rank) + place_of(row) + ": " + fleet.decides->why;
}

std::string first_failure_of(const Fleet& fleet) {
  if (!fleet.decides || !fleet.decides->fails_first) return "";
  return "rank " + std::to_string(fleet.rows[*fleet.decides->fails_first].rank) + " first: " + fleet.decides->fails_why;
}

std::vector<std::string> unjudged_leaks_of(const Fleet& fleet) {
  constexpr std::size_t longest_list = 2000;
  std::map<std::string, std::vector<std::uint32_t>> ranks;  // by why
  for (const FleetRow& row : fleet.rows)
    if (const std::string& why = row.summary.leaks_not_judged; row.judged() && !why.empty())
      ranks[why].push_back(row.rank);
  std::vector<std::string> texts;
  for (const auto& [why, of] : ranks) texts.push_back("leaks of " + ranks_text(of, longest_list) + ", " + why);
  return texts;
}

}  // namespace memreel
