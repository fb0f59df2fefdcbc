// SPDX-License-Identifier: Apache-2.0
// Frees that free nothing.
#pragma once

#include <cstddef>

namespace memreel {

struct Trace;

/// What a program frees again in a pool of its own, before the first free completed, frees nothing: such frees become
/// ones of no allocation. Returns their number. What is wrong with them, `pool_errors()` says, which goes by address.
std::size_t part_with_repeated_frees(Trace& trace);

}  // namespace memreel
