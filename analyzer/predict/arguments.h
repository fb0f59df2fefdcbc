// Command-line syntax of predictions: "batch=4:snapshot.pickle", "batch=8,16".
#pragma once

#include <span>
#include <string>
#include <vector>

#include "analyzer/engine/prepared.h"
#include "analyzer/predict/model.h"
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

}  // namespace memreel
