// SPDX-License-Identifier: Apache-2.0
#include "collector/cuda/decoder.h"

#include <gtest/gtest.h>

namespace memreel::cuda {
namespace {

TEST(EnteredCalls, ACallFindsWhatItsBeginningLeft) {
  EnteredCalls calls;
  calls.put(7, 100);
  EXPECT_EQ(calls.take(8), 0U);
  EXPECT_EQ(calls.take(7), 100U);
  EXPECT_EQ(calls.take(7), 0U) << "once";
}

TEST(EnteredCalls, CallsWithinCalls) {
  EnteredCalls calls;
  calls.put(1, 10);
  calls.put(2, 20);
  calls.put(2, 21);  // a runtime call and the driver call inside it have the same number
  EXPECT_EQ(calls.take(2), 21U);
  EXPECT_EQ(calls.take(2), 20U);
  EXPECT_EQ(calls.take(1), 10U);
}

TEST(EnteredCalls, NothingLeftTakesNoRoom) {
  EnteredCalls calls;
  calls.put(1, 10);
  for (std::uint32_t call = 2; call < 100; ++call) calls.put(call, 0);
  EXPECT_EQ(calls.take(50), 0U);
  EXPECT_EQ(calls.take(1), 10U);
}

TEST(EnteredCalls, EndsThatNeverCameMakeRoom) {
  EnteredCalls calls;
  for (std::uint32_t call = 1; call <= 1000; ++call) calls.put(call, call);
  EXPECT_EQ(calls.take(1), 0U);
  EXPECT_EQ(calls.take(1000), 1000U);
  calls.put(2000, 5);
  EXPECT_EQ(calls.take(2000), 5U);
}

}  // namespace
}  // namespace memreel::cuda
