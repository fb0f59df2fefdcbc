#include "analyzer/report/text_table.h"

#include <gtest/gtest.h>

#include <sstream>

namespace memreel {
namespace {

std::string printed(const TextTable& table, int indent = 0) {
  std::ostringstream out;
  table.print(out, indent);
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

TEST(TextTable, CountsCodePointsNotBytes) {
  EXPECT_EQ(display_width("µs"), 2U);
  EXPECT_EQ(display_width("─"), 1U);
}

}  // namespace
}  // namespace memreel
