// SPDX-License-Identifier: Apache-2.0
// Any recording may be opened by the viewer.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/viewing.h"

// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  memreel::fuzz::view({data, size});
  return 0;
}
