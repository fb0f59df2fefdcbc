// Writes what a program would do at values of its parameters that were not recorded.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "analyzer/predict/model.h"
#include "formats/model/synthetic.h"
#include "formats/model/trace.h"

namespace memreel {

/// A synthetic trace, and what each of its allocations was made from.
struct PredictedRun {
  /// What an allocation was made from: a request of the base, or (from 1 on) one of its copies; or that for the result
  /// of the kernel of which it is scratch.
  struct Source {
    std::uint32_t row = 0, copy = 0;
    std::optional<Bytes> scratch;  // its size
  };

  Trace trace;
  HeapId heap = HeapId::none;
  std::vector<Source> sources;                // by allocation
  std::span<const RecordedSegment> segments;  // of a recording: a device begins with the same regions of addresses
};

/// The events of the model's base, in their order, with the sizes that its requests have at `values`, and with as many
/// repeats as there are then. Only the heap that was judged; no segments, which are the allocator's doing. Every
/// allocation lies at an address of its own: place() gives them those of an allocator. The header says that it is
/// synthetic.
///
/// Kernels ask for the scratch that they need at `values`, on the GPU that the model predicts for.
///
/// A copy of a repeat frees what its original freed: of what the repeat, or another one, asked for the copy of the same
/// number; of what stood before the repeat as far as its period is long, what the copy written before it asked for.
/// What a copy leaves to be freed later is freed where its original is; but what its round frees of the round before or
/// after it, every copy's round does.
PredictedRun synthesize(const Model& model, std::span<const std::uint64_t> values, const Assumption& assumption = {});

}  // namespace memreel
