// SPDX-License-Identifier: Apache-2.0
// Checks plans, independently of how they are made.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "analyzer/plan/problem.h"

namespace memreel::plan {

struct Requirements {
  Bytes align = 1_B;
  std::optional<Bytes> capacity = std::nullopt;
};

/// The first fault of a plan: a buffer without an offset, one that is not where it has to be or not aligned, an end
/// above the capacity, two buffers that share a byte while both are in use. None if there is none. Sizes are as given,
/// not rounded.
std::optional<std::string> fault_of(std::span<const Buffer> buffers, std::span<const Bytes> offsets,
                                    const Requirements& requirements);

}  // namespace memreel::plan
