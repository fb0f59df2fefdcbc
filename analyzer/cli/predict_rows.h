// SPDX-License-Identifier: Apache-2.0
// Rows of `memreel predict`, described once for its text, page and JSON.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "analyzer/predict/predict.h"
#include "analyzer/report/fields.h"

namespace memreel {

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
