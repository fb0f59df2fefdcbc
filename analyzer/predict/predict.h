// SPDX-License-Identifier: Apache-2.0
// Predicts what a program needs at sizes at which it never ran.
//
// Recordings of the program at two or more sizes are aligned (align.h); how each request grows is learned (growth.h,
// model.h); the requests at the requested size are written as a trace (synthesize.h) and replayed through the
// allocator. If a request's size is no function of the parameters, such as a workspace of a library that chooses its
// algorithm, many assumptions are replayed, from more than one recording, and the one in the middle of the range is the
// prediction.
#pragma once

#include <memory>

#include "analyzer/analysis/category/classify.h"
#include "analyzer/predict/model.h"
#include "analyzer/predict/synthesize.h"
#include "analyzer/replay/replay.h"
#include "formats/model/result.h"

namespace memreel {

// What holds the memory at the live peak: in a prediction, and in the recording it was made from.

struct LiveBySite {
  StackId stack = StackId::none;  // of the recording
  Bytes recorded, predicted;
};

struct LiveByCategory {
  Category category = Category::unknown;
  Bytes recorded, predicted;
};

/// What grows most comes first.
struct LiveAtPeak {
  std::vector<LiveBySite> sites;
  std::vector<LiveByCategory> categories;
};

/// `categories`: of the model's base. Replays both runs.
LiveAtPeak live_at_peak(const Model& model, const Categories& categories, const Values& at,
                        const Assumption& assumption);

/// Requests of one call stack whose sizes follow no function of the parameters: a library chooses an algorithm.
struct UncertainSite {
  StackId stack = StackId::none;  // of the recording that the prediction was made from
  std::uint32_t requests = 0;     // in that recording
  Bytes least, most;              // of the request of which least is known
};

struct PredictOptions {
  std::vector<std::string> names;  // of the parameters
  PolicySpec policy;               // the allocator of the predicted run
  std::optional<Bytes> capacity;   // of its device, which the recordings' other heaps are on, too
  std::optional<GpuTraits> gpu;    // of its device; default: that of the recordings
  /// Replays end at it, but for those of the recordings and the first of a prediction.
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
};

/// The peaks of a recording replayed with the allocator of the prediction.
struct Peaks {
  Bytes live, allocated, reserved;
};

struct Prediction {
  Values at;
  Peaks peaks;
  Bytes reserved_low, reserved_high;           // the range in which the true value is expected
  std::optional<ReplayFailure> first_failure;  // under the capacity, if there is one
  Bytes beside;           // what others hold of the device then, else at the peak below; with a capacity, like the next
  Bytes device_peak;      // of the allocator and the others at one instant
  Assumption assumption;  // of the trace that has these peaks ...
  std::size_t base = 0;   // ... the recording it was made from,
  std::size_t layout = 0;  // ... and the one whose address regions it begins with
  bool complete = true;    // else the deadline came before all of its replays, and the range is too narrow
};

/// A recording, predicted from the others.
struct LeftOut {
  Values at;
  Peaks recorded;
  std::optional<Peaks> predicted;  // none: there are too few others, or they can't give smaller runs
};

class Predictor {
 public:
  /// Orders the recordings by their values and learns from them. Errors: fewer than two; two at the same values; no
  /// requests; less than half of the requested bytes of one recording have a counterpart in another; two recordings
  /// make the same requests, so that they are one file or nothing depends on the parameter.
  static Result<Predictor> make(std::vector<Recording> recordings, PredictOptions options);

  /// `at` must satisfy can_predict().
  Prediction predict(const Values& at) const;

  /// Errors: the run at these values makes more requests than are synthesized, 4 million.
  Result<void> can_predict(const Values& at) const;

  /// The largest whole number for parameter `which`, with the others as in `at`, at which the prediction fits the
  /// capacity; 0: none. Searches up to 2^20 times the largest recorded one, no further than can_predict(), and no
  /// longer than it takes when all runs make as many requests as those recorded, nor than until the deadline: the
  /// result is then the largest known to fit.
  std::uint64_t largest_that_fits(const Values& at, std::size_t which) const;

  /// The trace that has the peaks of `prediction`; its allocations are placed if PyTorch's allocator is replayed.
  PredictedRun predicted_run(const Prediction& prediction) const;

  /// Predictions for parameter `which` at up to `count` evenly spaced values between those of `from` and `to`, both
  /// included; the other parameters as in `to`. Ends at the deadline.
  std::vector<Prediction> curve(const Values& from, const Values& to, std::size_t which, std::size_t count) const;

  LiveAtPeak held(const Prediction& prediction) const;
  /// Where less is known than a size, the least known first. None at recorded values.
  std::vector<UncertainSite> uncertain(const Prediction& prediction) const;

  const std::vector<std::unique_ptr<Recording>>& recordings() const { return recordings_; }
  const std::vector<Peaks>& recorded() const { return recorded_; }
  const std::vector<LeftOut>& left_out() const { return left_out_; }
  /// What in the recordings makes predictions doubtful, each in a sentence.
  const std::vector<std::string>& doubts() const { return doubts_; }
  const PredictOptions& options() const { return options_; }
  /// For the largest recording: the share of requested bytes that has a counterpart in others, and the share whose
  /// sizes follow an exact function.
  double aligned_share() const;
  double exact_share() const;
  /// The GPU that predictions are for, and whether a recording shows that it was made on such a GPU.
  const GpuTraits& gpu() const { return models_.back().predicted_for; }
  bool gpu_seen() const { return models_.back().gpu_seen && gpu() == models_.back().recorded_on; }

 private:
  Predictor() = default;
  void find_doubts();

  std::vector<std::unique_ptr<Recording>> recordings_;  // ascending
  std::vector<Model> models_;                           // one for each recording as the base
  std::vector<Categories> categories_;                  // likewise
  std::vector<Peaks> recorded_;
  std::vector<LeftOut> left_out_;
  PredictOptions options_;
  std::vector<std::string> doubts_;
  double margin_ = 0;          // share of the reserved peak by which the range exceeds what was replayed, per doubling
  double left_out_error_ = 0;  // the largest error of predicting a recording from the others, likewise, but once
  double late_less_ = 0, late_more_ = 0;  // shares by which late starts widen the range
  Bytes unknown_older_;                   // older than the recordings, and not in all of them
};

}  // namespace memreel
