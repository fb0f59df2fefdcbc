// SPDX-License-Identifier: Apache-2.0
// All code of a function, including what the compiler placed elsewhere.
#include "collector/stacks/call_frames.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/stacks/split_function.h"

#if defined(__x86_64__) || defined(__aarch64__)
namespace memreel::stacks {
namespace {

bool contain(const std::vector<AddressRange>& parts, std::uintptr_t address) {
  return std::any_of(parts.begin(), parts.end(), [&](AddressRange part) { return part.contains(address); });
}

TEST(FunctionParts, WhatSeldomRunsIsFound) {
  const auto function = reinterpret_cast<std::uintptr_t>(&testing::split_function);
  const auto place = CodeMap().find(function);
  ASSERT_TRUE(place);
  const auto main_part = function_at(place->tables, function);
  ASSERT_TRUE(main_part);
  EXPECT_EQ(main_part->begin, function);
  testing::split_function(7);
  if (main_part->contains(testing::seldom_run_place())) GTEST_SKIP() << "this compiler keeps functions in one piece";

  const std::vector<AddressRange> parts = parts_of(*main_part, place->tables);
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(parts.front(), *main_part);
  for (const int n : {3, 5, 7, 11, 13, 17}) {
    testing::split_function(n);
    EXPECT_TRUE(contain(parts, testing::seldom_run_place())) << n;
  }
  EXPECT_FALSE(contain(parts, reinterpret_cast<std::uintptr_t>(&testing::seldom_run_place)));
}

TEST(FunctionParts, WithoutTables) {
  const auto function = reinterpret_cast<std::uintptr_t>(&testing::split_function);
  const AddressRange code{function, function + 64};
  EXPECT_EQ(parts_of(code, {}), std::vector{code});
  EXPECT_EQ(parts_of({function, function}, {}), (std::vector{AddressRange{function, function}}));
}

}  // namespace
}  // namespace memreel::stacks
#endif
