// SPDX-License-Identifier: Apache-2.0
// Any recording may be given to any command. Most inputs are well-formed recordings of impossible programs: the mutator
// changes numbers and names, and fixes the checksums.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/fuzzed_commands.h"

// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  memreel::fuzz::run_some_command({data, size});
  return 0;
}
