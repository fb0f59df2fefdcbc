// What larger runs of a program will need, from recordings of small ones: the chart of `memreel predict`.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "analyzer/predict/arguments.h"
#include "analyzer/predict/chart.h"
#include "formats/model/units.h"

namespace memreel::viewer {

struct PredictionView {
  GrowthChart chart;
  std::string problem;  // why there is no chart; empty: there is one
};

/// Reads the recordings and predicts on a thread of its own.
class PredictionJob {
 public:
  /// `to`: values to predict, as in `memreel predict`; none: twice, four and eight times the largest recording.
  /// `wake` is called, by that thread, when it is done. `memory_limit`: what each recording may ask for; 0: as its size
  /// suggests.
  PredictionJob(std::vector<RecordingArgument> recordings, std::vector<std::string> to, std::string capacity,
                std::function<void()> wake, Bytes memory_limit = {});

  const std::vector<RecordingArgument>& recordings() const { return recordings_; }
  /// Null: not done yet.
  std::shared_ptr<const PredictionView> result() const;

 private:
  std::vector<RecordingArgument> recordings_;
  mutable std::mutex mutex_;
  std::shared_ptr<const PredictionView> result_;
  std::jthread thread_;  // last: it uses the others
};

/// Whether a word that should be a file says at which value it was recorded: "batch=4:FILE".
bool is_recording_argument(const std::string& word);

}  // namespace memreel::viewer
