// SPDX-License-Identifier: Apache-2.0
// A function whose cold part compilers place elsewhere.
#pragma once

#include <cstdint>

namespace memreel::stacks::testing {

/// With 3, 5, 7, 11, 13 or 17 it runs the code marked as cold.
[[gnu::noinline]] int split_function(int n);

/// The address of that code when it last ran.
std::uintptr_t seldom_run_place();

}  // namespace memreel::stacks::testing
