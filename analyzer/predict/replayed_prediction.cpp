#include "analyzer/predict/replayed_prediction.h"

#include <array>
#include <utility>

namespace memreel {

ReplayedPrediction::ReplayedPrediction(const Model& model, std::span<const std::uint64_t> at)
    : model_(model),
      at_(at.begin(), at.end()),
      factor_(model.factor(at)),
      predicted_run_(synthesize(model, at)),
      heaps_(prepare(predicted_run_.trace)) {
  std::erase_if(heaps_, [&](const Prepared& heap) { return heap.heap != predicted_run_.heap; });
  begin_with(model.base->segments);
}

void ReplayedPrediction::begin_with(const std::vector<RecordedSegment>& segments) {
  if (!heaps_.empty()) heaps_.front().segments = segments;
}

ReplayResult ReplayedPrediction::replay(const PolicySpec& policy, const DeviceModel& device,
                                        const Assumption& assumption) {
  if (heaps_.empty()) return {};
  Prepared& heap = heaps_.front();
  std::vector<Bytes> sizes;
  sizes.reserve(predicted_run_.sources.size());
  for (const PredictedRun::Source& source : predicted_run_.sources)
    sizes.push_back(source.scratch ? *source.scratch
                                   : model_.size_of(source.row, source.copy, at_, factor_, assumption));
  for (std::size_t row = 0; row < heap.count(); ++row) {
    const AllocationId allocation = predicted_run_.trace.events.allocation[heap.event[row]];
    if (allocation != AllocationId::none) heap.size[row] = sizes[index(allocation)];
  }
  const std::array specs{policy};
  Result<std::vector<ReplayResult>> results =
      memreel::replay(heaps_, specs, {.device = device, .series_points = 1, .threads = 1});
  return results && !results->empty() ? std::move(results->front()) : ReplayResult{};
}

}  // namespace memreel
