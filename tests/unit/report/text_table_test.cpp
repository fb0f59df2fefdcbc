// SPDX-License-Identifier: Apache-2.0
#include "analyzer/describe/text_table.h"

#include <gtest/gtest.h>

#include <sstream>

namespace memreel {
namespace {

std::string printed(const TextTable& table, int indent = 0, std::size_t width = 80) {
  std::ostringstream out;
  table.print(out, indent, width);
  return out.str();
}

TEST(TextTable, LinesUpTextLeftAndNumbersRight) {
  TextTable table({{"policy"}, {"peak", Align::right}});
  table.add_row({"a", "1.00 GiB"});
  table.add_row({"longer name", "9 B"});
  EXPECT_EQ(printed(table),
            "policy           peak\n"
            "───────────  ────────\n"
            "a            1.00 GiB\n"
            "longer name       9 B\n");
}

TEST(TextTable, IndentsAndLeavesNoTrailingBlanks) {
  TextTable table({{"a"}, {"note"}});
  table.add_row({"x"});
  EXPECT_EQ(printed(table, 2), "  a  note\n  ─  ────\n  x\n");
}

TEST(TextTable, LastColumnContinuesBesideTheNumbers) {
  TextTable table({{"bytes", Align::right}, {"why"}});
  table.add_row({"1 B", "nothing allocated there was ever freed"});
  EXPECT_EQ(printed(table, 2, 30),
            "  bytes  why\n"
            "  ─────  ─────────────────────\n"
            "    1 B  nothing allocated\n"
            "         there was ever freed\n");
}

TEST(TextTable, LastColumnGoesBelowWhereAWordHasNoRoomBeside) {
  TextTable table({{"saves", Align::right}, {"reserved", Align::right}, {"setting"}});
  table.add_row({"1.00 GiB", "5.00 GiB", "expandable_segments:True,max_split_size_mb:90"});
  EXPECT_EQ(printed(table, 0, 40),
            "   saves  reserved\n"
            "  setting\n"
            "────────  ────────\n"
            "1.00 GiB  5.00 GiB\n"
            "  expandable_segments:True,\n"
            "  max_split_size_mb:90\n");
}

TEST(TextTable, LastColumnGoesBelowRatherThanClipAnother) {
  TextTable table({{"verdict"}, {"the largest"}});
  table.add_row({"unknown before attach", "at some/folder/train.py:41"});
  EXPECT_EQ(printed(table, 0, 36),
            "verdict\n"
            "  the largest\n"
            "─────────────────────\n"
            "unknown before attach\n"
            "  at some/folder/train.py:41\n");
}

TEST(TextTable, ClippedPlacesDiffer) {
  TextTable table({{"bytes", Align::right}, {"layer", Align::left, Fit::clipped}});
  for (const char* number : {"0", "1"})
    table.add_row({"1 B", "model.py:1164/model.py:968 #" + std::string(number) + "/model.py:727/model.py:216"});
  EXPECT_EQ(printed(table, 0, 40),
            "bytes  layer\n"
            "─────  ─────────────────────────────────\n"
            "  1 B  …/model.py:968 #0/…/model.py:216\n"
            "  1 B  …/model.py:968 #1/…/model.py:216\n");
}

TEST(TextTable, MiddleOfOtherTextIsLeftOutAndNumbersStayWhole) {
  TextTable table({{"allocated at"}, {"bytes", Align::right}});
  table.add_row({"a_function_with_a_long_name (train.py:41)", "1,234,567,890,123 B"});
  EXPECT_EQ(printed(table, 0, 40),
            "allocated at                       bytes\n"
            "───────────────────  ───────────────────\n"
            "a_functio…in.py:41)  1,234,567,890,123 B\n");
}

}  // namespace
}  // namespace memreel
