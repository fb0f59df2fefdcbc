#include "analyzer/predict/live_at_peak.h"

#include <algorithm>
#include <map>

#include "analyzer/predict/replayed_prediction.h"

namespace memreel {
namespace {

/// Calls `use(allocation of the base, bytes)` for everything live at the peak, at `at`.
template <class Use>
void for_each_held(const Model& model, const Values& at, const Assumption& assumption, Use use) {
  ReplayedPrediction replayed(model, at);
  const double factor = model.factor(at);
  const ReplayResult result = replayed.replay({.name = "bound.live"}, {}, assumption);
  const Trace& trace = replayed.predicted_run().trace;
  std::vector<bool> freed(trace.allocation_events.size());
  for (std::uint32_t i = 0; i <= result.peak_live_event && i < trace.events.count(); ++i)
    if (trace.events.kind[i] == EventKind::free_requested) freed[index(trace.events.allocation[i])] = true;
  for (std::size_t a = 0; a < freed.size() && trace.allocation_events[a] <= result.peak_live_event; ++a) {
    if (freed[a]) continue;
    const PredictedRun::Source& source = replayed.predicted_run().sources[a];
    const std::uint32_t event = model.base->requests.rows[source.row].event;
    use(model.base->trace.events.allocation[event],
        source.scratch ? *source.scratch : model.size_of(source.row, source.copy, at, factor, assumption));
  }
}

template <class Held, class Key>
std::vector<Held> most_grown_first(const std::map<Key, Held>& all) {
  std::vector<Held> sorted;
  for (const auto& [key, held] : all) sorted.push_back(held);
  std::ranges::stable_sort(sorted, std::greater{}, [](const Held& held) {
    return static_cast<std::int64_t>(held.predicted.count) - static_cast<std::int64_t>(held.recorded.count);
  });
  return sorted;
}

}  // namespace

LiveAtPeak live_at_peak(const Model& model, const Categories& categories, const Values& at,
                        const Assumption& assumption) {
  std::map<StackId, LiveBySite> sites;
  std::map<Category, LiveByCategory> by_category;
  const Trace& trace = model.base->trace;
  const auto add_up = [&](const Values& values, Bytes LiveBySite::*of_site, Bytes LiveByCategory::*of_category) {
    for_each_held(model, values, assumption, [&](AllocationId allocation, Bytes bytes) {
      const StackId stack = trace.events.stack[trace.allocation_events[index(allocation)]];
      LiveBySite& site = sites[stack];
      site.stack = stack;
      site.*of_site += bytes;
      const Category category = categories.category(allocation);
      LiveByCategory& held = by_category[category];
      held.category = category;
      held.*of_category += bytes;
    });
  };
  add_up(model.base->at, &LiveBySite::recorded, &LiveByCategory::recorded);
  add_up(at, &LiveBySite::predicted, &LiveByCategory::predicted);
  return {.sites = most_grown_first(sites), .categories = most_grown_first(by_category)};
}

}  // namespace memreel
