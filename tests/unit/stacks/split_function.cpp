// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/stacks/split_function.h"

namespace memreel::stacks::testing {
namespace {

std::uintptr_t place = 0;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

[[gnu::cold, gnu::noinline]] void note_caller() {
  place = reinterpret_cast<std::uintptr_t>(__builtin_return_address(0));
}

}  // namespace

int split_function(int n) {
  int result = n;
  for (int i = 0; i < n; ++i) result = result * 31 + i;
  if (n == 3) {
    note_caller();
    result += 1;
  }
  if (n == 5) {
    note_caller();
    result *= 7;
  }
  if (n == 7) {
    note_caller();
    result -= 2;
  }
  if (n == 11) {
    note_caller();
    result ^= 9;
  }
  if (n == 13) {
    note_caller();
    result /= 5;
  }
  if (n == 17) {
    note_caller();
    result %= 3;
  }
  return result;
}

std::uintptr_t seldom_run_place() { return place; }

}  // namespace memreel::stacks::testing
