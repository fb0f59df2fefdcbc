// SPDX-License-Identifier: Apache-2.0
#include "formats/model/value_check.h"

#include <gtest/gtest.h>

#include <vector>

namespace memreel {
namespace {

constexpr Event sound{.kind = EventKind::alloc, .address = {4096}, .size = 512_B};

EventColumns columns_of(const std::vector<Event>& events) {
  EventColumns columns;
  for (const Event& event : events) columns.push_back(event);
  return columns;
}

std::string refusal(const Event& event) {
  EventColumns columns = columns_of({sound, event});
  const Result<void> checked = ValueCheck("run.reel").check(columns);
  return checked ? "" : checked.error().message();
}

TEST(TotalBytes, NeitherBeginsAnewNorFallsBelowZero) {
  constexpr Bytes most{~std::uint64_t{0}};
  TotalBytes total(1_B);
  total += most;
  total += 1_B;
  EXPECT_EQ(total.bytes(), most);
  total -= most;
  total -= 1_B;
  EXPECT_EQ(total.bytes(), 0_B);
  EXPECT_EQ((TotalBytes(most) + 2_B).bytes(), most);
}

TEST(ValueCheck, TheLargestNumbersPass) {
  Event largest = sound;
  largest.time = max_time;
  largest.address = max_address;
  largest.size = max_allocation;
  EXPECT_EQ(refusal(largest), "");
  largest.time = -max_time;
  EXPECT_EQ(refusal(largest), "");
}

TEST(ValueCheck, WhatNoDeviceHasIsNamedByItsEvent) {
  Event large = sound, high = sound, late = sound;
  large.size = max_allocation + 1_B;
  high.address = {max_address.value + 1};
  late.time = Nanoseconds::min();
  for (const Event& event : {large, high, late})
    EXPECT_NE(refusal(event).find("run.reel: event 1 (alloc) "), std::string::npos) << refusal(event);
}

TEST(ValueCheck, RequestsThatFailedAreCut) {
  Event failed{.kind = EventKind::alloc_failed, .size = {~std::uint64_t{0}}, .value = ~std::uint64_t{0}};
  EventColumns columns = columns_of({failed});
  ASSERT_TRUE(ValueCheck("").check(columns));
  EXPECT_EQ(columns[0].size, max_request);
  EXPECT_EQ(columns[0].value, max_request.count);
}

TEST(ValueCheck, AllThatWasAllocatedHasALimitAcrossBlocks) {
  Event large = sound;
  large.size = max_allocation;
  ValueCheck values("");
  EventColumns columns = columns_of(std::vector<Event>(max_total / max_allocation / 2, large));
  EXPECT_TRUE(values.check(columns));
  EXPECT_TRUE(values.check(columns));
  EXPECT_FALSE(values.check(columns));
}

}  // namespace
}  // namespace memreel
