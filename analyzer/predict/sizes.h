// SPDX-License-Identifier: Apache-2.0
// The sizes that predictions are made for: as given on the command line, and as the axis of a chart.
#pragma once

#include <span>

#include "analyzer/predict/cards.h"
#include "analyzer/predict/model.h"
#include "analyzer/predict/predict.h"
#include "analyzer/replay/engine/prepared.h"
#include "formats/model/result.h"

namespace memreel {

struct RecordingArgument {
  std::vector<std::string> names;  // of the parameters
  Values at;
  std::string file;
};

/// "batch=4,seq=512:FILE". Errors: there is no value, or it is not a positive whole number below 2^32.
Result<RecordingArgument> parse_recording(const std::string& text);

/// Parses all of them; they must name the same parameters.
Result<std::vector<RecordingArgument>> parse_recordings(std::span<const std::string> texts);

/// Every combination of the values in `to`, each "batch=8,16"; a parameter that is not named keeps its value in
/// `largest`.
Result<std::vector<Values>> parse_targets(std::span<const std::string> to, const std::vector<std::string>& names,
                                          const Values& largest);

/// The heap with the most requested bytes. Errors name `file`: there is no heap.
Result<HeapId> busiest_heap(const Trace& trace, std::span<const Prepared> heaps, const std::string& file);

struct GrowthChart {
  struct Recorded {
    std::uint64_t at = 0;
    Bytes live, reserved;
  };
  struct Predicted {
    std::uint64_t at = 0;
    Bytes live, reserved, low, high;
    bool asked = false;  // gets a point and a number below
  };

  std::string parameter;
  std::vector<Recorded> recorded;    // ascending
  std::vector<Predicted> predicted;  // ascending
  std::optional<Bytes> limit;        // of reserved bytes
  std::string limit_name;            // shown at its line
};

/// The parameter that is searched, and the axis of a chart: the first with several requested values, else one that
/// differs from the recordings.
std::size_t searched_parameter(std::span<const Values> targets, const Values& largest);

/// Over parameter `which`; the others are as in the first requested prediction.
GrowthChart make_growth_chart(const Predictor& predictor, std::span<const Prediction> asked, std::size_t which,
                              const PredictDevice& device);

}  // namespace memreel
