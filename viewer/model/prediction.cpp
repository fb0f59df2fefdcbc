// SPDX-License-Identifier: Apache-2.0
#include "viewer/model/prediction.h"

#include "analyzer/replay/completed_trace.h"
#include "analyzer/replay/program_heaps.h"
#include "analyzer/replay/registry.h"
#include "formats/import/import.h"

namespace memreel::viewer {
namespace {

Result<GrowthChart> chart_of(const std::vector<RecordingArgument>& arguments, std::vector<std::string> to,
                             const std::string& capacity, Bytes memory_limit, const std::stop_token& stop) {
  std::vector<Recording> recordings;
  std::optional<PolicySpec> policy;
  Values largest;
  for (const RecordingArgument& argument : arguments) {
    Result<Trace> trace = open_any(argument.file, {.memory_limit = memory_limit});
    if (!trace) return std::move(trace).error();
    if (stop.stop_requested()) return Error{.what = "cancelled"};
    complete_trace(*trace);
    const std::vector<Prepared> heaps = program_heaps(*trace);
    const Result<HeapId> heap = busiest_heap(*trace, heaps, argument.file);
    if (!heap) return heap.error();
    if (largest.empty() || scale(argument.at, largest) >= 1) {
      largest = argument.at;
      policy = recorded_policy(*trace, heaps);
    }
    std::vector<HeldFrom> beside;
    if (!capacity.empty()) beside = beside_heap(*trace, *heap);
    recordings.push_back({.file = argument.file,
                          .at = argument.at,
                          .trace = *std::move(trace),
                          .heap = *heap,
                          .beside = std::move(beside)});
  }
  if (!policy)
    return Error{.what = "this program did not use PyTorch's allocator",
                 .remedy = "memreel predict --policy names another"};
  Result<BoundPolicy> bound = bind_policy(*policy);
  if (!bound) return std::move(bound).error();
  const std::vector<std::string>& names = arguments.front().names;
  const Result<PredictDevice> device = predict_device(capacity, recordings);
  if (!device) return device.error();
  const Result<Predictor> predictor = Predictor::make(
      std::move(recordings),
      {.names = names, .policy = std::move(bound->spec), .capacity = device->shared(), .gpu = device->gpu});
  if (!predictor) return predictor.error();
  if (to.empty())
    for (const std::uint64_t times : {2U, 4U, 8U})
      to.push_back(names.front() + "=" + std::to_string(largest[0] * times));
  const Result<std::vector<Values>> targets = parse_targets(to, names, largest);
  if (!targets) return targets.error();
  std::vector<Prediction> predictions;
  for (const Values& at : *targets) {
    if (stop.stop_requested()) return Error{.what = "cancelled"};
    if (const Result<void> possible = predictor->can_predict(at); !possible) return possible.error();
    predictions.push_back(predictor->predict(at));
  }
  return make_growth_chart(*predictor, predictions, searched_parameter(*targets, largest), *device);
}

}  // namespace

PredictionJob::PredictionJob(std::vector<RecordingArgument> recordings, std::vector<std::string> to,
                             std::string capacity, std::function<void()> wake, Bytes memory_limit)
    : recordings_(std::move(recordings)) {
  thread_ = std::jthread([this, to = std::move(to), capacity = std::move(capacity), wake = std::move(wake),
                          memory_limit](const std::stop_token& stop) {
    PredictionView view;
    if (Result<GrowthChart> chart = chart_of(recordings_, to, capacity, memory_limit, stop))
      view.chart = *std::move(chart);
    else
      view.problem = chart.error().message();
    {
      const std::lock_guard lock(mutex_);
      result_ = std::make_shared<const PredictionView>(std::move(view));
    }
    wake();
  });
}

std::shared_ptr<const PredictionView> PredictionJob::result() const {
  const std::lock_guard lock(mutex_);
  return result_;
}

bool is_recording_argument(const std::string& word) {
  const std::size_t equals = word.find('='), colon = word.find(':');
  return equals != std::string::npos && colon != std::string::npos && equals < colon && equals > 0 &&
         !std::filesystem::exists(word);
}

}  // namespace memreel::viewer
