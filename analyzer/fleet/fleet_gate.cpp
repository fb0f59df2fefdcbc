// SPDX-License-Identifier: Apache-2.0
#include "analyzer/fleet/fleet_gate.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "analyzer/gate/edited_json.h"
#include "analyzer/gate/gate_outcome.h"
#include "formats/model/quantity.h"

namespace memreel {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view schema = "memreel.fleet-baseline/1";

/// The judged row with the highest `metric`; there must be one.
template <class Metric>
const FleetRow& highest(const Fleet& fleet, Metric metric) {
  const FleetRow* best = &fleet.rows.front();
  for (const FleetRow& row : fleet.rows)
    if (row.judged() && (!best->judged() || metric(*best) < metric(row))) best = &row;
  return *best;
}

/// Of all its GPUs, with what is not the framework's: the most that it reserves on one.
Bytes peak_on_any_gpu(const FleetRow& row) {
  Bytes peak = row.summary.peak_reserved;
  for (const RankDevice& device : row.summary.devices) peak = std::max(peak, device.peak_reserved);
  return peak;
}

/// The framework's, by which ranks are compared with each other and with a baseline.
Bytes peak_of(const FleetRow& row) { return row.summary.peak_reserved; }

Bytes leaked_of(const FleetRow& row) {
  Bytes sum;
  for (const RankLeak& leak : row.summary.leaks) sum += leak.bytes;
  return sum;
}

std::string rank_text(const FleetRow& row) { return "rank " + std::to_string(row.rank); }

Check bytes_check(std::string name, const FleetRow& row, Bytes value, Bytes limit, const std::string& subject) {
  Check check{.name = std::move(name),
              .of = CheckOf::rank,
              .number = static_cast<std::int32_t>(row.rank),
              .value = value,
              .limit = limit};
  if (value > limit)
    check.reason = subject + " of " + rank_text(row) + ": " + text_of(value) + ", " + text_of(value - limit) +
                   " more than the " + text_of(limit) + " allowed";
  return check;
}

/// Ranks on one GPU have the same headroom: as in the decision, the one that holds most of it counts.
const FleetRow& tightest(const Fleet& fleet) {
  return highest(fleet, [](const FleetRow& r) { return std::pair(-*r.headroom, r.summary.peak_reserved); });
}

Check capacity_check(const Fleet& fleet) {
  const FleetRow& row = tightest(fleet);
  const Bytes capacity = on_tightest(row).capacity.value_or(0_B);
  const auto needed = static_cast<std::uint64_t>(static_cast<std::int64_t>(capacity.count) - *row.headroom);
  return bytes_check("capacity", row, {needed}, capacity, "device memory");
}

Check headroom_check(const Fleet& fleet, Bytes least) {
  const FleetRow& row = tightest(fleet);
  const bool negative = *row.headroom < 0;
  const Bytes left{negative ? 0 : static_cast<std::uint64_t>(*row.headroom)};
  Check check{.name = "min-headroom",
              .of = CheckOf::rank,
              .number = static_cast<std::int32_t>(row.rank),
              .value = left,
              .limit = least};
  if (negative || left < least) {
    const TightestUse use = on_tightest(row);
    check.reason = "headroom of " + rank_text(row) + ": " + (negative ? "none" : text_of(left)) +
                   ", less than the required " + text_of(least) + "; at its peak " + text_of(use.reserved) + " of " +
                   text_of(use.capacity.value_or(0_B)) + " are reserved";
  }
  return check;
}

}  // namespace

Result<std::vector<Check>> check_fleet(const Fleet& fleet, const FleetBudgets& budgets) {
  if (fleet.classes.empty()) return Error{.what = "no recording can be judged"};
  std::vector<Check> checks;
  const FleetRow& heaviest = highest(fleet, peak_of);
  if (budgets.max_reserved) {
    const FleetRow& most = highest(fleet, peak_on_any_gpu);
    checks.push_back(bytes_check("max-reserved", most, peak_on_any_gpu(most), *budgets.max_reserved, "reserved peak"));
  }
  if (budgets.max_p99) {
    Check check{.name = "max-p99", .of = CheckOf::all, .value = fleet.imbalance.p99, .limit = *budgets.max_p99};
    if (fleet.imbalance.p99 > *budgets.max_p99)
      check.reason = "99 % of ranks reserve up to " + text_of(fleet.imbalance.p99) + ", more than the allowed " +
                     text_of(*budgets.max_p99) + "; most: " + rank_text(heaviest) + ", " + text_of(peak_of(heaviest));
    checks.push_back(std::move(check));
  }
  if (budgets.max_imbalance) {
    Check check{.name = "max-imbalance",
                .of = CheckOf::all,
                .value = Ratio{fleet.imbalance.max_over_mean},
                .limit = Ratio{*budgets.max_imbalance}};
    if (fleet.imbalance.max_over_mean > *budgets.max_imbalance)
      check.reason = "imbalance: " + text_of(fleet.imbalance.max_over_mean, 2) + ", above the " +
                     text_of(*budgets.max_imbalance, 2) + " allowed: " + rank_text(heaviest) + " reserves " +
                     text_of(peak_of(heaviest)) + " at its peak, the mean is " + text_of(fleet.imbalance.mean);
    checks.push_back(std::move(check));
  }
  for (const FleetRow& row : fleet.rows)
    if ((budgets.min_headroom || budgets.all_fit) && row.judged() && !row.headroom)
      return Error{.what = "the recording of " + rank_text(row) + " doesn't say how large its device is",
                   .where = "--min-headroom",
                   .remedy = "give it with --capacity"};
  if (budgets.min_headroom) checks.push_back(headroom_check(fleet, *budgets.min_headroom));
  if (budgets.all_fit) checks.push_back(capacity_check(fleet));
  if (budgets.max_leaked) {
    const FleetRow& leaking = highest(fleet, leaked_of);
    checks.push_back(bytes_check("max-leaked", leaking, leaked_of(leaking), *budgets.max_leaked, "leaked memory"));
    if (!fleet.leaks_are_judged()) checks.back().unjudged = "leaks, not judged: no rank's can be";
  }
  return checks;
}

FleetBaseline baseline_of(const Fleet& fleet) {
  FleetBaseline baseline{.heap = fleet.heap};
  for (const RankClass& c : fleet.classes) {
    FleetBaseline::Class& entry = baseline.classes.emplace_back();
    for (const std::uint32_t row : c.rows) entry.ranks.push_back(fleet.rows[row].rank);
    entry.peak_reserved = c.peak_reserved;
  }
  return baseline;
}

std::string text_of(const FleetBaseline& baseline) {
  Json classes = Json::array();
  for (const FleetBaseline::Class& c : baseline.classes)
    classes.push_back({{"ranks", c.ranks}, {"peak_reserved_bytes", c.peak_reserved.count}});
  Json document{{"schema", schema}};
  if (!baseline.heap.empty()) document["heap"] = baseline.heap;
  document["classes"] = std::move(classes);
  return document.dump(1) + "\n";
}

Result<FleetBaseline> parse_fleet_baseline(std::string_view text, const std::string& where) {
  const Error bad{.what = "is not a baseline of a job (" + std::string(schema) + ")",
                  .where = where,
                  .remedy = "write a new one with memreel check --fleet FILES --write-baseline F"};
  const EditedJson edited = parse_edited_json(text);
  const Json& document = edited.document;
  if (!document.is_object() || document.value("schema", Json()) != schema || !document.contains("classes")) return bad;
  const auto refuse = [&](std::string what) {
    Error error = bad;
    error.what = std::move(what);
    return error;
  };
  if (edited.twice) return refuse("has '" + *edited.twice + "' twice");
  FleetBaseline baseline;
  std::set<std::uint32_t> ranks;
  try {
    baseline.heap = document.value("heap", "");
    for (const Json& entry : document.at("classes")) {
      FleetBaseline::Class& c = baseline.classes.emplace_back();
      for (const Json& rank : entry.at("ranks")) {
        // get() would turn -1 and 0.5 into ranks.
        if (!rank.is_number_unsigned() || rank.get<std::uint64_t>() > std::numeric_limits<std::uint32_t>::max())
          return refuse("has no sensible 'ranks' everywhere");
        c.ranks.push_back(rank.get<std::uint32_t>());
        if (!ranks.insert(c.ranks.back()).second) return refuse("has rank " + rank.dump() + " twice");
      }
      const Json& peak = entry.at("peak_reserved_bytes");
      if (!peak.is_number_unsigned()) return refuse("has no sensible 'peak_reserved_bytes' everywhere");
      c.peak_reserved = {peak.get<std::uint64_t>()};
    }
  } catch (const Json::exception&) {
    return bad;
  }
  return baseline;
}

namespace {

/// Ranks of one status, and why each has it.
using RanksAndReasons = std::vector<std::pair<std::uint32_t, std::string>>;

/// "ranks 2, 3 are missing: no recording"; if there are several reasons, the first rank's.
std::string gap_text(RankStatus status, const RanksAndReasons& of) {
  constexpr std::size_t longest_list = 2000;
  std::vector<std::uint32_t> ranks;
  bool is_one_reason = true;
  for (const auto& [rank, reason] : of) {
    ranks.push_back(rank);
    is_one_reason &= reason == of.front().second;
  }
  const std::string first = is_one_reason ? ": " : "; rank " + std::to_string(ranks.front()) + ": ";
  return ranks_text(ranks, longest_list) + (ranks.size() == 1 ? " is " : " are ") +
         (status == RankStatus::ok ? "not judged" : std::string(words_of(status))) + first + of.front().second;
}

}  // namespace

FleetGaps gaps_of(const Fleet& fleet, const FleetBudgets& budgets, const std::optional<FleetBaseline>& before) {
  FleetGaps gaps;
  std::map<RankStatus, RanksAndReasons> found;
  std::set<std::uint32_t> judged;
  for (const FleetRow& row : fleet.rows) {
    if (row.judged()) judged.insert(row.rank);
    const bool is_missing = std::ranges::binary_search(fleet.missing, row.rank);
    if (row.judged() ? row.summary.status == RankStatus::ok : !is_missing) continue;
    if (gaps.ranks.insert(row.rank).second) found[row.summary.status].emplace_back(row.rank, row.summary.reason);
  }
  if (before)
    for (const FleetBaseline::Class& c : before->classes)
      for (const std::uint32_t rank : c.ranks)
        if (!judged.contains(rank) && gaps.ranks.insert(rank).second)
          found[RankStatus::missing].emplace_back(rank, "the baseline has it, this job has no recording of it");
  for (auto& [status, of] : found) {
    std::ranges::sort(of);
    gaps.texts.push_back(gap_text(status, of));
  }
  if (budgets.max_leaked) {
    for (const FleetRow& row : fleet.rows)
      if (row.judged() && !row.summary.leaks_not_judged.empty()) gaps.ranks.insert(row.rank);
    std::ranges::move(unjudged_leaks_of(fleet), std::back_inserter(gaps.texts));
  }
  return gaps;
}

Check check_complete(const Fleet& fleet, const FleetGaps& gaps, bool allowed) {
  const std::uint64_t count = gaps.ranks.size();
  Check check{.name = "complete",
              .of = CheckOf::all,
              .value = RankCount{count},
              .limit = RankCount{allowed ? std::max<std::uint64_t>(fleet.world_size, count) : 0}};
  if (allowed && count > 0) check.unjudged = incomplete(gaps.texts).unjudged;
  if (!allowed)
    for (const std::string& text : gaps.texts) check.reason += (check.reason.empty() ? "" : "; ") + text;
  return check;
}

std::vector<Check> check_fleet(const Fleet& fleet, const FleetBaseline& before, double tolerance) {
  std::map<std::uint32_t, const FleetRow*> now;
  for (const FleetRow& row : fleet.rows)
    if (row.judged()) now[row.rank] = &row;
  std::vector<Check> checks;
  for (const FleetBaseline::Class& c : before.classes) {
    const FleetRow* worst = nullptr;
    for (const std::uint32_t rank : c.ranks) {
      const auto found = now.find(rank);
      if (found != now.end() && (worst == nullptr || peak_of(*worst) < peak_of(*found->second))) worst = found->second;
    }
    if (worst == nullptr) continue;
    const Bytes limit = with_tolerance(c.peak_reserved, tolerance);
    Check check =
        bytes_check("baseline reserved, " + ranks_text(c.ranks), *worst, peak_of(*worst), limit, "reserved peak");
    if (!check.passed()) check.reason += ", before " + text_of(c.peak_reserved);
    checks.push_back(std::move(check));
    for (const std::uint32_t rank : c.ranks) now.erase(rank);
  }
  if (!now.empty()) {
    std::vector<std::uint32_t> unknown;
    for (const auto& [rank, row] : now) unknown.push_back(rank);
    checks.push_back({.name = "baseline ranks",
                      .of = CheckOf::all,
                      .value = RankCount{unknown.size()},
                      .limit = RankCount{},
                      .reason = ranks_text(unknown) + ": not in the baseline, so an increase can't be judged"});
  }
  return checks;
}

}  // namespace memreel
