// SPDX-License-Identifier: Apache-2.0
// The flame graph as a tree: who called whom, from the program's beginning to the allocations.
#pragma once

#include <vector>

#include "viewer/model/flame.h"
#include "viewer/terminal/holders.h"

namespace memreel::viewer::terminal {

/// Frames that only pass a call on are left out, and a frame with one callee that holds all of it stands with it on one
/// line.
HolderTree flame_tree(const Tables& tables, const std::vector<StackWeight>& weights);

}  // namespace memreel::viewer::terminal
