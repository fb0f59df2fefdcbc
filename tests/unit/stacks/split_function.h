// A function of which compilers put what seldom runs elsewhere.
#pragma once

#include <cstdint>

namespace memreel::stacks::testing {

/// With 3, 5, 7, 11, 13 or 17 it runs code that is marked as seldom run.
[[gnu::noinline]] int split_function(int n);

/// Where that code was when it last ran.
std::uintptr_t seldom_run_place();

}  // namespace memreel::stacks::testing
