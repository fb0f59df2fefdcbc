#include <algorithm>
#include <cmath>

#include "analyzer/cli/predict_command.h"
#include "analyzer/replay/prepare.h"
#include "analyzer/tune/search_space.h"
#include "analyzer/tune/tune.h"
#include "formats/model/quantity.h"

namespace memreel::cli {

PredictSetting better_setting(const Predictor& predictor, const Prediction& prediction) {
  const PredictOptions& options = predictor.options();
  if (options.policy.name != "torch.native") return {};
  if (options.capacity && prediction.peaks.live > *options.capacity) return {};
  const PredictedRun predicted_run = predictor.predicted_run(prediction);
  std::vector<Prepared> heaps = prepare(predicted_run.trace);
  std::erase_if(heaps, [&](const Prepared& heap) { return heap.heap != predicted_run.heap; });
  TuneOptions tuning{.device = DeviceModel{}};
  if (options.capacity) tuning.device = {.kind = DeviceModel::Kind::capacity, .capacity = *options.capacity};
  const Result<TuneResult> result = tune(heaps, options.policy, tuning);
  if (!result) return {};
  PredictSetting setting{.tried = result->tried};
  if (const Outcome* const best = result->recommended()) {
    setting.conf = conf_of(best->policy);
    setting.peak_reserved = best->peak_reserved();
  }
  return setting;
}

std::optional<double> bytes_per_unit(const Predictor& predictor, const Prediction& prediction,
                                     const LiveByCategory& held) {
  const Values& base = predictor.recordings()[prediction.base]->at;
  std::optional<double> units;
  for (std::size_t p = 0; p < base.size(); ++p) {
    if (base[p] == prediction.at[p]) continue;
    if (units) return std::nullopt;
    units = static_cast<double>(prediction.at[p]) - static_cast<double>(base[p]);
  }
  if (!units) return std::nullopt;
  return (static_cast<double>(held.predicted.count) - static_cast<double>(held.recorded.count)) / *units;
}

std::string gpu_note(const Predictor& predictor, const PredictReport& report) {
  const GpuTraits& gpu = predictor.gpu();
  const std::string known = report.device.gpu      ? report.device.card
                            : predictor.gpu_seen() ? "as the recordings show"
                                                   : "assumed: the recordings don't show it";
  return "kernels take the scratch that they take on a GPU of " + memreel::text_of(gpu.multiprocessors) +
         " multiprocessors and compute capability " + std::to_string(gpu.compute_capability / 10) + "." +
         std::to_string(gpu.compute_capability % 10) + " (" + known + ")";
}

std::string values_text(const Values& at, const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t p = 0; p < names.size(); ++p) text += (p > 0 ? ", " : "") + names[p] + " " + memreel::text_of(at[p]);
  return text;
}

}  // namespace memreel::cli
