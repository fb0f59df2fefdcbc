// SPDX-License-Identifier: Apache-2.0
// The memory needs of larger runs, predicted from recordings of small ones: the chart of `memreel predict`.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "analyzer/predict/sizes.h"
#include "formats/model/units.h"

namespace memreel::viewer {

struct PredictionView {
  GrowthChart chart;
  std::string problem;  // why there is no chart; empty: no problem
};

/// Reads the recordings and predicts on its own thread.
class PredictionJob {
 public:
  /// `to`: values to predict, as in `memreel predict`; none: twice, four and eight times the largest recording.
  /// `wake` is called on that thread when it is done. `memory_limit`: for each recording; 0: a limit based on its size.
  PredictionJob(std::vector<RecordingArgument> recordings, std::vector<std::string> to, std::string capacity,
                std::function<void()> wake, Bytes memory_limit = {});

  const std::vector<RecordingArgument>& recordings() const { return recordings_; }
  /// Null until it is done.
  std::shared_ptr<const PredictionView> result() const;

 private:
  std::vector<RecordingArgument> recordings_;
  mutable std::mutex mutex_;
  std::shared_ptr<const PredictionView> result_;
  std::jthread thread_;  // last member: it uses the others
};

/// Whether a file argument has the value at which it was recorded: "batch=4:FILE".
bool is_recording_argument(const std::string& word);

}  // namespace memreel::viewer
