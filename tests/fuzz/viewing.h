// SPDX-License-Identifier: Apache-2.0
// What the viewer computes to show a recording, without a window.
#pragma once

#include <cstdint>
#include <span>

namespace memreel::fuzz {

/// Builds the viewer's model of a recording and makes every query that the panes make, once for each heap.
void view(std::span<const std::uint8_t> recording);

}  // namespace memreel::fuzz
