// SPDX-License-Identifier: Apache-2.0
// Files of earlier versions stay readable.
//
// tests/golden/v<N>/*.reel were written by the first release of format version N and are never rewritten; next to each
// is its content as text.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "formats/reader/trace_reader.h"
#include "tests/golden/dump.h"

namespace memreel {
namespace {

TEST(Golden, EveryFileSaysWhatItAlwaysSaid) {
  namespace fs = std::filesystem;
  int files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(MEMREEL_GOLDEN_DIR)) {
    if (entry.path().extension() != ".reel") continue;
    const auto trace = load(entry.path());
    ASSERT_TRUE(trace) << trace.error().message();
    EXPECT_TRUE(trace->read.intact());
    EXPECT_TRUE(trace->read.has_footer);
    std::ifstream expected(fs::path(entry.path()).replace_extension(".txt"));
    ASSERT_TRUE(expected) << entry.path();
    std::ostringstream text;
    text << expected.rdbuf();
    EXPECT_EQ(testing::dump(*trace), text.str()) << entry.path();
    ++files;
  }
  EXPECT_GE(files, 3);
}

}  // namespace
}  // namespace memreel
