// What was learned from recordings of one program at several sizes: how each request of one of them, the base, grows.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "analyzer/engine/prepared.h"
#include "analyzer/predict/growth.h"
#include "analyzer/predict/requests.h"
#include "formats/model/trace.h"

namespace memreel {

/// One recording of the program and the parameters it was made at.
struct Recording {
  std::filesystem::path file;
  Values at;
  Trace trace;
  HeapId heap = HeapId::none;             // whose requests are judged
  Requests requests;                      // with sites that all recordings of a prediction share
  std::vector<RecordedSegment> segments;  // of the heap, in the order in which the device gave them
};

/// What is assumed of requests for which no exact function was found: each of them one of three sizes.
struct Assumption {
  enum class Size : std::uint8_t { least, likely, most };

  Size all = Size::likely;
  std::uint64_t draw = 0;  // other than 0: drawn at random for each, `all` is not used
  bool widely = true;      // whether sizes that are near the likely one are drawn from as far as others

  Size of(std::uint32_t rule) const;
};

/// The size of a request.
struct SizeRule {
  std::optional<SizeGrowth> exact;
  std::optional<SizeGrowth> likely;  // without an exact function: one that most of the sizes suggest
  double missed = 1;                 // by what share of them it misses the sizes, at most; 1: it is unlikely
  Bytes base, least, most;           // recorded: in the base, of all its partners

  /// `factor`: Model::factor() at `values`.
  Bytes at(std::span<const std::uint64_t> values, double factor, Assumption::Size assumed, bool widely) const;
};

/// A stretch of requests that a smaller recording lacks, as that of more layers or tokens: it consists of periods, of
/// which a larger program has more.
struct Repeat {
  std::uint32_t first = 0, count = 0;  // rows of the base that the smaller recording lacks
  std::uint32_t unit = 0;              // the first row of the period that is copied
  std::uint32_t period = 0;            // rows; divides `count`
  bool backwards = false;              // frees what other repeats asked for, the last copy first
  SizeGrowth requests;                 // how many requests the stretch's sites make in its step
  std::uint64_t added = 0;             // of those, how many the base has more than the smaller recording

  /// How many more (or, negative, fewer) periods than in the base there are at `values`.
  std::int64_t periods(std::span<const std::uint64_t> values, std::span<const std::uint64_t> base_values) const;
};

/// Sums of columns. How many rows they have follows from the requests beside them, or is a function of its own.
struct SumRule {
  std::uint64_t number = 0;  // bytes of a number
  SumLayout layout = SumLayout::rows;
  bool of_inputs = true;
  std::uint32_t gradient =
      0;                      // a row of the base, if `of_inputs` the gradient of a layer's inputs; else what is summed
  std::uint32_t weights = 0;  // the gradient of the layer's weights
  std::optional<SizeGrowth> rows;  // instead of those
};

/// The gradient of an embedding. Of words and width one is known, and the other follows from the size of the result.
struct EmbeddingRule {
  SizeGrowth indices;
  std::uint64_t number = 0;  // bytes of a number
  std::optional<std::uint64_t> words, width;
};

struct KernelRule {
  std::uint32_t row = 0;  // of the base: the request for the result
  std::variant<SumRule, EmbeddingRule> rule;
};

struct Model {
  const Recording* base = nullptr;
  std::vector<std::uint32_t> rule_of;  // per request of the base
  std::vector<SizeRule> rules;
  std::vector<Repeat> repeats;      // ascending, disjoint
  std::vector<KernelRule> kernels;  // by row
  GpuTraits recorded_on;            // the GPU of the recordings ...
  bool gpu_seen = false;            // ... as they show; else how large it is is assumed
  GpuTraits predicted_for;          // the GPU of the run that is predicted
  Bytes requested;                  // by all requests of the base
  Bytes aligned;                    // of those with a partner in another recording, or in a repeat
  Bytes exact;                      // of those whose size is an exact function
  Bytes unconfirmed;                // of those: by a function that was only drawn through the recorded sizes

  /// How much more those sizes come to at `values` that are exact functions and no constants, all requests together.
  double factor(std::span<const std::uint64_t> values) const;

  /// The size that a request of the base, or a copy of it (from 1 on), has at `values`. Sizes that grow from one period
  /// of a repeat to the next go on growing in its copies.
  /// `factor`: factor() at `values`.
  Bytes size_of(std::uint32_t row, std::uint32_t copy, std::span<const std::uint64_t> values, double factor,
                const Assumption& assumption) const;
  /// How many requests the program makes at `values`, about.
  double requests(std::span<const std::uint64_t> values) const;
  /// What a kernel asks for beside its result at `values`.
  KernelRequests requests_of(const KernelRule& kernel, std::span<const std::uint64_t> values,
                             const GpuTraits& gpu) const;
  /// The repeat of which a row is copied, or null.
  const Repeat* repeat_of(std::uint32_t row) const;

 private:
  Bytes original_size(std::uint32_t row, std::span<const std::uint64_t> values, double factor,
                      const Assumption& assumption) const {
    return rules[rule_of[row]].at(values, factor, assumption.of(rule_of[row]), assumption.widely);
  }
};

using Recordings = std::span<const Recording* const>;

/// `recordings`: at least two, their requests comparable, in ascending order: neighbours are compared. They must
/// outlive the model. `base`: an index of them.
/// `gpus`: those that the recordings may have been made on, at least one. Of those that explain the scratch of as many
/// kernels the first is taken.
Model learn(Recordings recordings, std::size_t base, std::span<const GpuTraits> gpus);

/// The product of the parameters' ratios: how much larger one run is than another when all of it is proportional.
double scale(std::span<const std::uint64_t> to, std::span<const std::uint64_t> from);

}  // namespace memreel
