// SPDX-License-Identifier: Apache-2.0
#include "analyzer/fleet/headline.h"

#include <algorithm>
#include <utility>

#include "formats/model/quantity.h"

namespace memreel {
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
    text += "all " + text_of(world) + " ranks";
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

}  // namespace memreel
