#include "analyzer/predict/chart.h"

#include <algorithm>

namespace memreel {
namespace {

constexpr std::size_t curve_points = 17;

}  // namespace

std::size_t searched_parameter(std::span<const Values> targets, const Values& largest) {
  for (std::size_t p = 0; p < largest.size(); ++p)
    if (std::ranges::any_of(targets, [&](const Values& at) { return at[p] != targets.front()[p]; })) return p;
  for (std::size_t p = 0; p < largest.size(); ++p)
    if (!targets.empty() && targets.front()[p] != largest[p]) return p;
  return 0;
}

GrowthChart make_growth_chart(const Predictor& predictor, std::span<const Prediction> asked, std::size_t which,
                              const PredictDevice& device) {
  GrowthChart chart{.parameter = predictor.options().names[which],
                    .limit = device.capacity,
                    .limit_name = device.card.empty() ? "capacity" : device.card};
  if (asked.empty()) return chart;
  const auto along = [&](const Values& at) {
    Values like = asked.front().at;
    like[which] = at[which];
    return like == at;
  };
  Values from = asked.front().at, to = from;
  for (std::size_t r = 0; r < predictor.recordings().size(); ++r) {
    const Values& at = predictor.recordings()[r]->at;
    if (!along(at)) continue;
    const Peaks& peaks = predictor.recorded()[r];
    chart.recorded.push_back({at[which], peaks.live, peaks.reserved});
    from[which] = std::min(from[which], at[which]);
    to[which] = std::max(to[which], at[which]);
  }
  const auto add = [&](const Prediction& p, bool is_asked) {
    chart.predicted.push_back({p.at[which], p.peaks.live, p.peaks.reserved, p.reserved_low, p.reserved_high, is_asked});
  };
  for (const Prediction& prediction : asked) {
    if (!along(prediction.at)) continue;
    add(prediction, true);
    from[which] = std::min(from[which], prediction.at[which]);
    to[which] = std::max(to[which], prediction.at[which]);
  }
  const auto drawn = [&](const Prediction& p) {
    return std::ranges::any_of(chart.predicted,
                               [&](const GrowthChart::Predicted& known) { return known.at == p.at[which]; });
  };
  for (const Prediction& prediction : predictor.curve(from, to, which, curve_points))
    if (!drawn(prediction)) add(prediction, false);
  std::ranges::sort(chart.predicted, {}, &GrowthChart::Predicted::at);
  std::ranges::sort(chart.recorded, {}, &GrowthChart::Recorded::at);
  return chart;
}

}  // namespace memreel
