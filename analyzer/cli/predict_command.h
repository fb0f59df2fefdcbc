// What `memreel predict` shows.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/predict/device.h"
#include "analyzer/predict/predict.h"

namespace memreel::cli {

/// What a search for a better setting found for one prediction.
struct PredictSetting {
  std::uint64_t tried = 0;  // 0: none was looked for
  std::string conf;         // as in PYTORCH_CUDA_ALLOC_CONF; empty: none is better
  Bytes peak_reserved;      // with it, replayed
};

struct PredictReport {
  PredictDevice device;
  std::vector<Prediction> predictions;
  std::vector<LiveAtPeak> held;                // of each
  std::vector<PredictSetting> settings;        // of each
  std::size_t which = 0;                       // the parameter that is searched: that of the two below
  std::optional<std::uint64_t> largest;        // that fits, of those asked for; none: not asked, or none of them does
  std::optional<std::uint64_t> largest_whole;  // that fits, of all numbers; 0: none
};

/// The best setting of PyTorch's allocator for a predicted run; under a capacity one that lets it fit. Every one is
/// replayed. None is looked for where none can help: what is live exceeds the capacity, or the policy is another.
PredictSetting better_setting(const Predictor& predictor, const Prediction& prediction);

/// How many bytes a category grows by for each unit of the one parameter in which `prediction` differs from the
/// recording that it was made from; none: they differ in several, or in none.
std::optional<double> bytes_per_unit(const Predictor& predictor, const Prediction& prediction,
                                     const LiveByCategory& held);

/// On which GPU kernels take the scratch that is predicted, and how that is known.
std::string gpu_note(const Predictor& predictor, const PredictReport& report);

/// "batch 4, seq 512".
std::string values_text(const Values& at, const std::vector<std::string>& names);

void print_predict_text(const Predictor& predictor, const PredictReport& report);
void print_predict_json(const Predictor& predictor, const PredictReport& report);
void write_predict_html(const Predictor& predictor, const PredictReport& report, std::ostream& out);

}  // namespace memreel::cli
