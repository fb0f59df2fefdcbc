// SPDX-License-Identifier: Apache-2.0
// The categories, layers and phases of a trace's allocations as text, for exports.
#pragma once

#include <deque>

#include "formats/export/export.h"
#include "formats/model/trace.h"

namespace memreel::cli {

struct AllocationNames {
  std::vector<std::string_view> category, layer, phase;  // by AllocationId
  std::deque<std::string> layers;                        // backs `layer`

  AllocationNotes notes() const { return {.category = category, .layer = layer, .phase = phase}; }
};

AllocationNames allocation_names(const Trace& trace);

}  // namespace memreel::cli
