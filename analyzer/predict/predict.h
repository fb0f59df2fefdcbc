// Record small, know large: what a program will need at sizes at which it never ran.
//
// Recordings of the program at two or more sizes are aligned (align.h); how each request grows is learned (growth.h,
// model.h); the requests of the size that is asked about are written as a trace (synthesize.h) and replayed through the
// allocator. Where a request's size is no function of the parameters, as workspaces of a library that chooses its
// algorithm, many assumptions are replayed, from more than one recording, and the one in the middle of the range is the
// prediction.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/predict/live_at_peak.h"
#include "analyzer/predict/model.h"
#include "analyzer/predict/synthesize.h"
#include "analyzer/replay/replay.h"
#include "formats/model/result.h"

namespace memreel {

struct PredictOptions {
  std::vector<std::string> names;  // of the parameters
  PolicySpec policy;               // the allocator of the run that is predicted
  std::optional<Bytes> capacity;   // of its device
  std::optional<GpuTraits> gpu;    // of its device; else it is that of the recordings
};

/// The peaks that a recording has when the allocator of the prediction replays it.
struct Peaks {
  Bytes live, allocated, reserved;
};

struct Prediction {
  Values at;
  Peaks peaks;
  Bytes reserved_low, reserved_high;           // the range in which the truth is expected
  std::optional<ReplayFailure> first_failure;  // under the capacity, if there is one
  Bytes failed_request;                        // of first_failure
  Assumption assumption;                       // of the trace that has these peaks ...
  std::size_t base = 0;                        // ... and the recordings that it was made from,
  std::size_t layout = 0;                      // ... and of which it begins with the regions of addresses
};

/// A recording, predicted from the others.
struct LeftOut {
  Values at;
  Peaks recorded;
  std::optional<Peaks> predicted;  // none: the others are too few, or smaller runs can't be made of them
};

class Predictor {
 public:
  /// Orders the recordings by their values and learns from them.
  /// Errors: fewer than two; two at the same values; no requests; less than half of the requested bytes of one
  /// recording have a counterpart in another.
  static Result<Predictor> make(std::vector<Recording> recordings, PredictOptions options);

  /// `at`: of a run that can_predict().
  Prediction predict(const Values& at) const;

  /// Errors: the run at these values makes more requests, 4 million, than are made up.
  Result<void> can_predict(const Values& at) const;

  /// The largest whole number of parameter `which`, the others as in `at`, for which the prediction fits the capacity;
  /// 0: none. Looks up to 2^20 times the largest that was recorded, and no further than can_predict(), nor for
  /// longer than it takes when all runs make as many requests as those recorded: then it is the largest that is known
  /// to fit.
  std::uint64_t largest_that_fits(const Values& at, std::size_t which) const;

  /// The trace that has the peaks of `prediction`; its allocations are placed when PyTorch's allocator is replayed.
  PredictedRun predicted_run(const Prediction& prediction) const;

  /// Predictions of parameter `which` at up to `count` values between those of `from` and of `to`, evenly spaced, both
  /// included; the other parameters as in `to`.
  std::vector<Prediction> curve(const Values& from, const Values& to, std::size_t which, std::size_t count) const;

  LiveAtPeak held(const Prediction& prediction) const;

  const std::vector<std::unique_ptr<Recording>>& recordings() const { return recordings_; }
  const std::vector<Peaks>& recorded() const { return recorded_; }
  const std::vector<LeftOut>& left_out() const { return left_out_; }
  const PredictOptions& options() const { return options_; }
  /// Of the largest recording: bytes of requests that have a counterpart in others, and of those whose sizes follow an
  /// exact function.
  double aligned_share() const;
  double exact_share() const;
  /// The GPU that predictions are for, and whether a recording shows that it was made on such a one.
  const GpuTraits& gpu() const { return models_.back().predicted_for; }
  bool gpu_seen() const { return models_.back().gpu_seen && gpu() == models_.back().recorded_on; }

 private:
  Predictor() = default;

  std::vector<std::unique_ptr<Recording>> recordings_;  // ascending
  std::vector<Model> models_;                           // one for each as the base
  std::vector<Categories> categories_;                  // likewise
  std::vector<Peaks> recorded_;
  std::vector<LeftOut> left_out_;
  PredictOptions options_;
  double margin_ = 0;  // share of the reserved peak that the range has beyond what was replayed
};

}  // namespace memreel
