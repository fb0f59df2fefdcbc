// SPDX-License-Identifier: Apache-2.0
#include "collector/stacks/nap.h"

#include <gtest/gtest.h>

#include <chrono>

namespace memreel::stacks {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

TEST(Nap, UntilAConditionHolds) {
  int asked = 0;
  EXPECT_TRUE(nap_until([&] { return ++asked == 3; }, std::chrono::hours(1)));
  EXPECT_EQ(asked, 3);
}

TEST(Nap, UntilTimeIsUpAndNoLonger) {
  const auto began = steady_clock::now();
  steady_clock::time_point last;
  const auto never = [&] {
    last = steady_clock::now();
    return false;
  };
  EXPECT_FALSE(nap_until(never, milliseconds(30), milliseconds(20)));
  EXPECT_GE(last - began, milliseconds(30)) << "asked once more at the end";
  int asked = 0;
  EXPECT_FALSE(nap_until([&] { return ++asked == 0; }, milliseconds(1), milliseconds(20)));
  EXPECT_LE(asked, 2) << "a nap that took longer counts with its real length";
}

TEST(Nap, NotAtAllIfItHolds) {
  EXPECT_TRUE(nap_until([] { return true; }, milliseconds(0)));
  EXPECT_FALSE(nap_until([] { return false; }, milliseconds(0)));
}

}  // namespace
}  // namespace memreel::stacks
