// SPDX-License-Identifier: Apache-2.0
// Writes what a program would do at parameter values that were not recorded.
#pragma once

#include <span>

#include "analyzer/predict/model.h"
#include "analyzer/replay/replay.h"
#include "formats/model/trace.h"
#include "formats/torch/settings.h"

namespace memreel {

/// A synthetic trace, and the source of each of its allocations.
struct PredictedRun {
  /// The source of an allocation: a request of the base, or (from 1 on) one of its copies; or the result of the kernel
  /// that it is scratch of.
  struct Source {
    std::uint32_t row = 0, copy = 0;
    std::optional<Bytes> scratch;  // its size
  };

  Trace trace;
  HeapId heap = HeapId::none;
  std::vector<Source> sources;                // by allocation
  std::span<const RecordedSegment> segments;  // of a recording: a device begins with the same address regions
  std::vector<HeldFrom> beside;               // what else the device held, each from before the corresponding event on
};

/// Numbers the events of a run's heaps from 1 on, so that what is beside them changes before an event, the first
/// included.
void number_from_one(std::span<Prepared> heaps);

/// The events of the model's base, in order, with the sizes of its requests at `values` and the corresponding number of
/// repeats. Only the analyzed heap; no segments, which are the allocator's doing. Every allocation has a unique
/// address: place() assigns those of an allocator. The header says that the trace is synthetic.
///
/// Kernels request the scratch that they need at `values`, on the GPU that the model predicts for.
///
/// A copy of a repeat frees what its original freed: of what the repeat, or another one, requested, the allocation of
/// the copy with the same number; of what precedes the repeat by up to its period, the allocation of the copy written
/// before it. What a copy leaves to be freed later is freed where its original is; but what its round frees of the
/// round before or after it, every copy's round frees too.
PredictedRun synthesize(const Model& model, std::span<const std::uint64_t> values, const Assumption& assumption = {});

// Places the allocations of a synthetic trace as an allocator would.

/// Replays PyTorch's allocator with `settings`, by the rules of their release, over the trace of `predicted_run`: every
/// allocation gets its address, and the segments that the allocator takes and releases become events. The device has no
/// limit.
void place(PredictedRun& predicted_run, const TorchSettings& settings);

// A predicted run prepared for replays that differ in the assumed sizes.

class ReplayedPrediction {
 public:
  /// `model` must outlive this object.
  ReplayedPrediction(const Model& model, std::span<const std::uint64_t> at);
  ReplayedPrediction(const ReplayedPrediction&) = delete;  // the target refers to the values
  ReplayedPrediction& operator=(const ReplayedPrediction&) = delete;

  using Deadline = std::chrono::steady_clock::time_point;

  /// Replays `policy`, whose parameters must be valid. A result that the deadline cut short has no policy name.
  ReplayResult replay(const PolicySpec& policy, const DeviceModel& device, const Assumption& assumption,
                      Deadline deadline = Deadline::max());

  /// The same on a device that others are on, too: what they held in the recording.
  DeviceReplay replay_with_others(const PolicySpec& policy, const DeviceModel& device, const Assumption& assumption);

  /// From now on the device begins with these address regions instead of those of the model's base.
  void begin_with(const std::vector<RecordedSegment>& segments);

  const PredictedRun& predicted_run() const { return predicted_run_; }

 private:
  void set_sizes(const Assumption& assumption);

  const Model& model_;
  Values at_;
  Target target_;
  PredictedRun predicted_run_;
  std::vector<Prepared> heaps_;  // one
};

}  // namespace memreel
