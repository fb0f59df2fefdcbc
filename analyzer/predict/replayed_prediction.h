// A predicted run prepared for replays that differ in the assumed sizes.
#pragma once

#include <span>

#include "analyzer/predict/synthesize.h"
#include "analyzer/replay/replay.h"

namespace memreel {

class ReplayedPrediction {
 public:
  /// `model` must outlive this object.
  ReplayedPrediction(const Model& model, std::span<const std::uint64_t> at);

  /// Replays `policy`, whose parameters must be valid.
  ReplayResult replay(const PolicySpec& policy, const DeviceModel& device, const Assumption& assumption);

  /// From now on the device begins with these address regions instead of those of the model's base.
  void begin_with(const std::vector<RecordedSegment>& segments);

  const PredictedRun& predicted_run() const { return predicted_run_; }

 private:
  const Model& model_;
  Values at_;
  double factor_;
  PredictedRun predicted_run_;
  std::vector<Prepared> heaps_;  // one
};

}  // namespace memreel
