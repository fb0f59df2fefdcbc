// Writes what a program would do at parameter values that were not recorded.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "analyzer/predict/model.h"
#include "formats/model/synthetic.h"
#include "formats/model/trace.h"

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
};

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

}  // namespace memreel
