// SPDX-License-Identifier: Apache-2.0
#include "formats/model/wrapping.h"

#include <gtest/gtest.h>

namespace memreel {
namespace {

TEST(Wrapping, CountsCodePointsNotBytes) {
  EXPECT_EQ(display_width("µs"), 2U);
  EXPECT_EQ(display_width("─"), 1U);
}

TEST(Wrapping, ClipsTheMiddleOfWhatIsTooLong) {
  EXPECT_EQ(clipped_middle("train.py:41", 11), "train.py:41");
  EXPECT_EQ(clipped_middle("train.py:41", 7), "tra…:41");
  EXPECT_EQ(clipped_middle("µµµµµµ", 3), "µ…µ");
}

TEST(Wrapping, WrapsAtBlanksAndAfterCommas) {
  EXPECT_EQ(wrapped("one two three", 2, 10), "  one two\n  three\n");
  EXPECT_EQ(wrapped("a:1,b:2,c:3", 0, 8), "a:1,b:2,\nc:3\n");
  EXPECT_EQ(wrapped("of 1,048,576 bytes", 0, 8), "of\n1,048,\n576\nbytes\n");
  EXPECT_EQ(wrapped("needs 1,048,576 bytes", 0, 12), "needs\n1,048,576\nbytes\n") << "a number stays whole";
  EXPECT_EQ(wrapped("unbreakable", 0, 4), "unbr\neaka\nble\n");
  EXPECT_EQ(wrapped("", 0, 4), "\n");
  EXPECT_EQ(wrapped("one two three", 1, 8, 2), " one two\n   three\n") << "a hanging indent";
}

TEST(Wrapping, NumbersStayWhole) {
  EXPECT_EQ(wrapped("calls: 852 before, 1,797 with it", 0, 22), "calls: 852 before,\n1,797 with it\n");
  EXPECT_EQ(wrapped("1,234,567 of them", 0, 10), "1,234,567\nof them\n");
  EXPECT_EQ(wrapped("ranks 8,10,12,14", 0, 12), "ranks 8,10,\n12,14\n") << "a list";
  EXPECT_EQ(wrapped("128,129,130,131", 0, 9), "128,129,\n130,131\n") << "what can't be one number is a list";
  EXPECT_EQ(longest_word("a 1,234,567 bc"), 9U);
}

}  // namespace
}  // namespace memreel
