// SPDX-License-Identifier: Apache-2.0
#include "tests/histories.h"

namespace memreel::test {

// Not from __FILE__: compilers that are told to map path prefixes make it relative.
std::filesystem::path source_directory() { return MEMREEL_SOURCE_DIRECTORY; }

}  // namespace memreel::test
