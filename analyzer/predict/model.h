// SPDX-License-Identifier: Apache-2.0
// What was learned from recordings of one program at several sizes: how each request of one of them, the base, grows.
#pragma once

#include <algorithm>
#include <filesystem>
#include <span>
#include <variant>

#include "analyzer/analysis/history/device_memory.h"
#include "analyzer/predict/growth.h"
#include "analyzer/predict/requests.h"
#include "analyzer/replay/engine/prepared.h"
#include "formats/model/trace.h"

namespace memreel {

/// One recording of the program and its parameter values.
struct Recording {
  std::filesystem::path file;
  Values at;
  Trace trace;
  HeapId heap = HeapId::none;             // whose requests are analyzed
  Requests requests;                      // with sites shared by all recordings of a prediction
  std::vector<RecordedSegment> segments;  // of the heap, in the order the device granted them
  std::string settings = {};              // that its allocator had, in words; empty: they don't matter
  std::vector<HeldFrom> beside = {};      // what else its device held; empty: nothing, or it is not asked for
};

/// The assumed size of requests without an exact function: one of three sizes for each.
struct Assumption {
  enum class Size : std::uint8_t { least, likely, most };

  Size all = Size::likely;
  std::uint64_t draw = 0;  // nonzero: drawn at random for each; `all` is not used
  bool widely = true;      // whether sizes near the likely one are drawn from as wide a range as others

  Size of(std::uint32_t rule) const;
};

/// Parameter values to predict for.
struct Target {
  std::span<const std::uint64_t> values;
  double factor = 1;      // by which sizes with exact, non-constant functions grow from the base on, over all requests
  std::size_t above = 0;  // the first of the recordings that are larger
};

/// The size of a request.
struct SizeRule {
  std::optional<SizeGrowth> exact;
  std::optional<SizeGrowth> likely;         // without an exact function: one that most of the sizes suggest
  double missed = 1;                        // largest share by which it misses the sizes; 1: it is unlikely
  std::size_t base = 0;                     // the base's number among the recordings
  std::vector<std::optional<Bytes>> sizes;  // by recording

  /// Without an exact function, a library chooses an algorithm, whose workspace grows at most as the rest does: the
  /// smaller recordings' choices may be made again and grow, and what larger ones chose bounds what they need.
  Bytes at(const Target& target, Assumption::Size assumed, bool widely) const;
};

/// A stretch of requests that a smaller recording lacks, e.g. of more layers or tokens: it consists of periods, and a
/// larger program has more of them.
struct Repeat {
  std::uint32_t first = 0, count = 0;  // rows of the base that the smaller recording lacks
  std::uint32_t unit = 0;              // first row of the period that is copied
  std::uint32_t period = 0;            // rows; divides `count`
  bool backwards = false;              // frees what other repeats requested, the last copy first
  SizeGrowth requests;                 // number of requests that the stretch's sites make in its step
  std::uint64_t added = 0;             // of those, how many more than in the smaller recording the base has

  /// The number of periods at `values` beyond those of the base; negative if fewer.
  std::int64_t periods(std::span<const std::uint64_t> values, std::span<const std::uint64_t> base_values) const;
};

/// Column sums. Their number of rows follows from the neighbouring requests, or is a separate function.
struct SumRule {
  std::uint64_t number = 0;  // bytes of a number
  SumLayout layout = SumLayout::rows;
  bool of_inputs = true;
  std::uint32_t gradient = 0;  // a row of the base: `of_inputs`: the gradient of a layer's inputs; else what is summed
  std::uint32_t weights = 0;   // the gradient of the layer's weights
  std::optional<SizeGrowth> rows;  // instead of those
};

/// The gradient of an embedding. One of its words and width is known; the other follows from the size of the result.
struct EmbeddingRule {
  SizeGrowth indices;
  std::uint64_t number = 0;  // bytes per number
  std::optional<std::uint64_t> words, width;
};

struct KernelRule {
  std::uint32_t row = 0;  // of the base: the request for the result
  std::variant<SumRule, EmbeddingRule> rule;
};

struct Model {
  const Recording* base = nullptr;
  std::vector<Values> recorded;        // the values of all recordings, ascending
  std::vector<std::uint32_t> rule_of;  // by request of the base
  std::vector<SizeRule> rules;
  std::vector<Repeat> repeats;      // ascending, disjoint
  std::vector<KernelRule> kernels;  // by row
  GpuTraits recorded_on;            // the GPU of the recordings ...
  bool gpu_seen = false;            // ... as they show; else assumed
  GpuTraits predicted_for;          // the GPU of the predicted run
  Bytes requested;                  // by all requests of the base
  Bytes aligned;                    // of those with a partner in another recording, or in a repeat
  Bytes exact;                      // of those whose size is an exact function
  Bytes unconfirmed;                // of those: by a function that only interpolates the recorded sizes

  /// Whether the base was recorded at these values: its requests are known then, whatever was learned.
  bool recorded_at(std::span<const std::uint64_t> values) const { return std::ranges::equal(values, base->at); }

  /// `values` must outlive it.
  Target target(std::span<const std::uint64_t> values) const;

  /// The size of a request of the base, or of a copy of it (from 1 on). Sizes that grow from one period of a repeat to
  /// the next keep growing in its copies.
  Bytes size_of(std::uint32_t row, std::uint32_t copy, const Target& target, const Assumption& assumption) const;
  /// The approximate number of requests that the program makes at `values`.
  double requests(std::span<const std::uint64_t> values) const;
  /// What a kernel requests in addition to its result at `values`.
  KernelRequests requests_of(const KernelRule& kernel, std::span<const std::uint64_t> values,
                             const GpuTraits& gpu) const;
  /// The repeat that copies a row, or null.
  const Repeat* repeat_of(std::uint32_t row) const;

 private:
  Bytes original_size(std::uint32_t row, const Target& target, const Assumption& assumption) const {
    if (recorded_at(target.values)) return base->requests.rows[row].size;
    return rules[rule_of[row]].at(target, assumption.of(rule_of[row]), assumption.widely);
  }
};

using Recordings = std::span<const Recording* const>;

/// `recordings`: at least two, with comparable requests, in ascending order: neighbours are compared. They must outlive
/// the model. `base`: an index into them. `gpus`: at least one, those that the recordings may have been made on. The
/// first of those that explain the most kernels' scratch is taken.
Model learn(Recordings recordings, std::size_t base, std::span<const GpuTraits> gpus);

/// The product of the parameters' ratios: how much larger one run is than another if everything is proportional.
double scale(std::span<const std::uint64_t> to, std::span<const std::uint64_t> from);

}  // namespace memreel
