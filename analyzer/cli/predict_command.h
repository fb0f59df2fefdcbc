// SPDX-License-Identifier: Apache-2.0
// Output of `memreel predict`.
#pragma once

#include <array>
#include <filesystem>
#include <iosfwd>

#include "analyzer/cli/program.h"
#include "analyzer/describe/fields.h"
#include "analyzer/predict/cards.h"
#include "analyzer/predict/predict.h"
#include "formats/model/result.h"

namespace memreel::cli {

/// The result of a search for a better setting for one prediction.
struct PredictSetting {
  std::uint64_t tried = 0;  // 0: no search
  std::string conf;         // as in PYTORCH_CUDA_ALLOC_CONF; empty: none is better
  Bytes peak_reserved;      // replayed with `conf`
};

struct PredictReport {
  PredictDevice device;
  std::string heap;       // its name
  bool is_alone = false;  // it was asked for by name: nothing else is on the device
  std::vector<Prediction> predictions;
  std::vector<LiveAtPeak> held;                       // of each prediction
  std::vector<std::vector<UncertainSite>> uncertain;  // of each prediction
  std::vector<PredictSetting> settings;               // of each prediction
  std::size_t which = 0;                              // the parameter that is searched, for the two below
  std::optional<std::uint64_t> largest;               // requested value that fits; none: not requested, or none fits
  std::optional<std::uint64_t> largest_whole;         // whole number that fits; 0: none
  std::vector<Values> not_predicted;                  // requested, but there was no time
  bool is_stopped = false;                            // something was left out because `seconds` had passed
  double seconds = 0;
};

/// The best setting of PyTorch's allocator for a predicted run; under a capacity, one that lets it fit. Replays every
/// setting. Does not search if no setting can help: live bytes exceed the capacity, or the policy is another one; nor
/// after the predictor's deadline.
PredictSetting better_setting(const Predictor& predictor, const Prediction& prediction);

/// Bytes by which a category grows per unit of the one parameter in which `prediction` differs from the recording it
/// was made from; none if they differ in several parameters, or in none.
std::optional<double> bytes_per_unit(const Predictor& predictor, const Prediction& prediction,
                                     const LiveByCategory& held);

/// The GPU whose kernels' scratch memory is predicted, and how it is known.
std::string gpu_note(const Predictor& predictor, const PredictReport& report);

/// "batch 4, seq 512".
std::string values_text(const Values& at, const std::vector<std::string>& names);

void print_predict_text(const Predictor& predictor, const PredictReport& report);
void print_predict_json(const Predictor& predictor, const PredictReport& report);
void write_predict_html(const Predictor& predictor, const PredictReport& report, std::ostream& out);

// The inputs of `memreel predict`, parsed from its arguments.

struct PredictArguments {
  std::vector<std::string> recordings;
  std::vector<std::string> to;
  std::string capacity;
  std::string heap;
  std::string policy;
  std::filesystem::path output;
  Bytes memory_limit;
  std::filesystem::path html;
  double seconds = most_replay_seconds;
  bool tune = false;
  bool json = false;
};

/// The opened recordings, and the allocator of the predicted runs.
struct PredictInputs {
  std::vector<std::string> names;  // of the parameters
  std::vector<Recording> recordings;
  PolicySpec policy;
};

Result<PredictInputs> open_inputs(const PredictArguments& arguments);

}  // namespace memreel::cli

namespace memreel {

// Rows of `memreel predict`, described once for its text, page and JSON.

/// A prediction, in words about the capacity it was made for.
struct PredictionRow {
  const Prediction& prediction;
  std::string at;                 // "batch 8"
  std::optional<Bytes> capacity;  // of the device, for the allocator and what others hold
};

/// Besides these, JSON has the parameters' values, `first_failure`, and what is held.
template <>
struct FieldsOf<PredictionRow> {
  static const std::array<ResultField<PredictionRow>, 10> all;
};

/// A recording, and what the others predict for it.
struct LeftOutRow {
  const LeftOut& left_out;
  std::string at;
};

/// Besides these, JSON has the parameters' values and both errors, and text the error of the reserved peak.
template <>
struct FieldsOf<LeftOutRow> {
  static const std::array<ResultField<LeftOutRow>, 7> all;
};

// The titles of the columns of these two are the values of the recording and of the prediction, not the fields'.

/// Besides these, JSON has `stack`.
template <>
struct FieldsOf<LiveBySite> {
  static const std::array<ResultField<LiveBySite>, 3> all;
};

/// Besides these, all have the growth per unit of the parameter.
template <>
struct FieldsOf<LiveByCategory> {
  static const std::array<ResultField<LiveByCategory>, 4> all;
};

/// Besides these, JSON has `stack`.
template <>
struct FieldsOf<UncertainSite> {
  static const std::array<ResultField<UncertainSite>, 5> all;
};

}  // namespace memreel
