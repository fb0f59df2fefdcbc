// SPDX-License-Identifier: Apache-2.0
#include "collector/top/top_table.h"

#include <gmock/gmock.h>

#include <array>
#include <sstream>

#include "tests/unit/collector/top/watched.h"

namespace memreel::top {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(TopTable, IsOrderedAsAsked) {
  std::array processes{watched(1, "small", 1_MiB), watched(2, "large", 1_GiB)};
  processes[0].heaps[0].growth = 1e9;
  const auto first = [&](Order order) {
    const std::string text = table(processes, order, 200);
    return text.find("small") < text.find("large") ? "small" : "large";
  };
  EXPECT_STREQ(first(Order::live), "large");
  EXPECT_STREQ(first(Order::growth), "small");
  EXPECT_STREQ(first(Order::process), "small");
  EXPECT_EQ(order_of_key('g'), Order::growth);
  EXPECT_EQ(order_of_key('x'), std::nullopt);
  EXPECT_EQ(order_named("reserved"), Order::reserved);
}

TEST(TopTable, SaysThatLostEventsMakeFiguresTooHigh) {
  std::array processes{watched(1, "python", 1_GiB)};
  EXPECT_THAT(table(processes, Order::live, 200), Not(HasSubstr("lost")));
  processes[0].status.lost = 1234;
  EXPECT_THAT(table(processes, Order::live, 200), HasSubstr("1,234 events lost: with frees among them, LIVE and PEAK"));
}

TEST(TopTable, SaysWhyAProcessCannotBeAskedAndFitsItsLines) {
  WatchedProcess silent;
  silent.process = 3;
  silent.name = "server";
  silent.problem = "is not owned by user 1000 alone";
  const std::array processes{watched(1, "python", 1_GiB), silent};
  EXPECT_THAT(table(processes, Order::live, 200), HasSubstr("is not owned by user 1000 alone"));
  std::istringstream lines(table(processes, Order::live, 60));
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(line.size(), 60U);
    EXPECT_FALSE(line.ends_with(' '));
  }
  EXPECT_EQ(table({}, Order::live, 80), "no recorded processes\n");
}

}  // namespace
}  // namespace memreel::top
