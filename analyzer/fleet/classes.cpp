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
constexpr std::array<std::string_view, 4> replica_axes{"dp", "fsdp", "ddp", "replica"};

bool is_of_stage(const Fleet& fleet, const RankClass& c, const std::string& stage) {
  return std::ranges::any_of(c.rows, [&](std::uint32_t row) { return stage_of(fleet.rows[row]) == stage; });
}

/// Compares small classes with larger ones. Among many equally large ones, none is a deviation.
void find_deviations(Fleet& fleet) {
  const auto sketch_of = [&](const RankClass& c) {
    return std::span(fleet.rows[c.rows.front()].summary.requests.sketch);
  };
  std::vector<std::uint32_t> large;
  for (std::uint32_t i = 0; i < fleet.classes.size(); ++i)
    if (fleet.classes[i].rows.size() >= times_larger) large.push_back(i);
  for (RankClass& small : fleet.classes) {
    const std::string stage = stage_of(fleet.rows[small.rows.front()]);
    for (const std::uint32_t i : large) {
      const RankClass& other = fleet.classes[i];
      if (other.rows.size() < times_larger * small.rows.size() || !is_of_stage(fleet, other, stage)) continue;
      const double alike = similarity(sketch_of(small), sketch_of(other));
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
    RankClass& c = fleet.classes[found->second];
    c.rows.push_back(i);
    c.peak_reserved = std::max(c.peak_reserved, row.summary.peak_reserved);
    row.klass = found->second;
  }
  find_deviations(fleet);
}

}  // namespace memreel::fleet_parts
