// SPDX-License-Identifier: Apache-2.0
// Rows of `memreel predict`, described once for its text, page and JSON.
#pragma once

#include <array>

#include "analyzer/predict/predict.h"
#include "analyzer/report/fields.h"

namespace memreel {

/// Besides these, JSON has `stack`.
template <>
struct FieldsOf<UncertainSite> {
  static const std::array<ResultField<UncertainSite>, 5> all;
};

}  // namespace memreel
