#include <algorithm>
#include <array>
#include <map>

#include "analyzer/fleet/fleet_parts.h"

namespace memreel::fleet_parts {
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
