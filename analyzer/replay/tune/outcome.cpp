// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/tune/outcome.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "analyzer/replay/tune/search_space.h"

namespace memreel {
namespace {

/// A smaller difference over a whole run is not noticeable.
constexpr double cost_margin_seconds = 0.05;
constexpr double cost_margin = 0.1;

/// What all of its values have in common with the others' does not matter.
int total_specificity(const Outcome& outcome) { return specificity({}, outcome.policy); }

/// Cheap ones first; among those, simple ones.
void rank_equals(std::span<Outcome> outcomes) {
  if (outcomes.empty()) return;
  double least = outcomes.front().driver_seconds();
  for (const Outcome& outcome : outcomes) least = std::min(least, outcome.driver_seconds());
  const double cheap = least + std::max(cost_margin_seconds, cost_margin * least);
  std::ranges::sort(outcomes, {}, [&](const Outcome& o) {
    const double cost = o.driver_seconds();
    return std::tuple(!o.every_release, cost > cheap ? cost : 0, o.changes, !o.best_known, total_specificity(o),
                      o.peak_reserved().count, cost, o.policy.text());
  });
}

}  // namespace

const ReplayResult& Outcome::worst() const {
  return *std::ranges::max_element(heaps, {}, [](const ReplayResult& r) { return r.peak_reserved.count; });
}

Bytes Outcome::ranked_peak() const {
  const Bytes peak = peak_reserved();
  return every_release ? peak
                       : Bytes{static_cast<std::uint64_t>(static_cast<double>(peak.count) * (1 + release_margin))};
}

DriverCalls Outcome::driver_calls() const {
  DriverCalls sum;
  for (const ReplayResult& r : heaps) sum += r.driver_calls;
  return sum;
}

double Outcome::driver_seconds() const { return UnitCosts::of_h200().seconds(driver_calls()); }

std::uint64_t Outcome::failures() const {
  std::uint64_t sum = 0;
  for (const ReplayResult& r : heaps) sum += r.failed_allocations;
  return sum;
}

const ReplayFailure* Outcome::first_failure() const {
  const ReplayFailure* first = nullptr;
  for (const ReplayResult& r : heaps)
    if (r.first_failure && (first == nullptr || r.first_failure->event < first->event)) first = &*r.first_failure;
  return first;
}

bool Outcome::gave_up() const {
  return std::ranges::any_of(heaps, [](const ReplayResult& r) { return r.gave_up; });
}

std::string release_mark(const Outcome& outcome) {
  if (outcome.every_release || !has_settings(outcome.policy)) return {};
  const std::string release = needs_release(outcome.policy);
  return release.empty() ? release : " (" + release + "+)";
}

void rank(std::vector<Outcome>& outcomes, bool limited) {
  std::ranges::stable_sort(outcomes, {}, [&](const Outcome& o) {
    const bool fails = o.failures() > 0;
    return std::tuple(o.failures(), fails && !o.every_release, fails ? o.changes : 0, fails && !o.best_known,
                      fails ? total_specificity(o) : 0, limited ? 0 : o.ranked_peak().count, o.policy.text());
  });
  const auto serve_all = [](const Outcome& o) { return o.failures() == 0; };
  const auto served = std::ranges::find_if_not(outcomes, serve_all);
  const auto first = outcomes.begin();
  if (served == first) return;
  const double good_enough = static_cast<double>(first->ranked_peak().count) * (1 + peak_margin);
  const auto equals = limited ? served : std::find_if(first, served, [&](const Outcome& o) {
    return static_cast<double>(o.ranked_peak().count) > good_enough;
  });
  rank_equals({first, equals});
}

bool misses_peak(bool is_unsure, Bytes replayed, Bytes recorded) {
  if (!is_unsure || recorded == 0_B) return false;
  return std::abs(saved_share(recorded, replayed)) > peak_margin;
}

void find_late_ranges(std::span<Outcome* const> outcomes, std::span<const Prepared> recorded,
                      const ReplayOptions& options) {
  if (!any_late(recorded)) return;
  std::vector<PolicySpec> specs;
  for (Outcome* const outcome : outcomes) {
    specs.push_back(outcome->policy);
    outcome->late.emplace(outcome->peak_reserved());
    outcome->late_saved = outcome->saved_of(outcomes.front()->peak_reserved());
  }
  ReplayOptions plain = options;
  plain.series_points = 0;
  for_each_beginning(recorded, [&](std::span<const Prepared> begun) {
    const auto results = replay(begun, specs, plain);
    if (!results) return;
    std::vector<Bytes> reserved(specs.size());
    for (std::size_t i = 0; i < results->size(); ++i) {
      if ((*results)[i].policy.name.empty()) return;  // no time was left
      Bytes& most = reserved[i / begun.size()];
      most = std::max(most, (*results)[i].peak_reserved);
    }
    for (std::size_t i = 0; i < specs.size(); ++i) {
      outcomes[i]->late->add(reserved[i]);
      auto& [least, most] = *outcomes[i]->late_saved;
      const auto saved = static_cast<std::int64_t>(reserved.front().count - reserved[i].count);
      least = std::min(least, saved);
      most = std::max(most, saved);
    }
  });
}

double saved_share(Bytes before, Bytes after) {
  if (before.count == 0) return 0;
  return 1 - static_cast<double>(after.count) / static_cast<double>(before.count);
}

}  // namespace memreel
