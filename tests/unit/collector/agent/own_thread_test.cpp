// SPDX-License-Identifier: Apache-2.0
// Waiting for a lock that another thread, or no thread, will release.
#include "collector/recorder/own_thread.h"

#include <gtest/gtest.h>

#include <mutex>
#include <thread>

namespace memreel::agent {
namespace {

constexpr std::chrono::hours for_ever{1};

TEST(Gate, OneIsInside) {
  Gate gate;
  int inside = 0, most = 0;
  const auto go_in_and_out = [&] {
    for (int i = 0; i < 200; ++i) {
      const std::unique_lock lock(gate, for_ever);
      ASSERT_TRUE(lock);
      most = std::max(most, ++inside);
      --inside;
    }
  };
  std::thread other(go_in_and_out);
  go_in_and_out();
  other.join();
  EXPECT_EQ(most, 1);
}

TEST(Gate, NobodyWaitsForHimself) {
  Gate gate;
  const std::unique_lock outer(gate, for_ever);
  const std::unique_lock handler(gate, for_ever);
  EXPECT_TRUE(outer);
  EXPECT_FALSE(handler);
}

TEST(Gate, WaitingHasAnEnd) {
  Gate gate;
  const std::unique_lock lock(gate, for_ever);
  std::thread([&] { EXPECT_FALSE(gate.try_lock_for(std::chrono::milliseconds(5))); }).join();
}

TEST(Gate, AChildIsNotKeptOutByItsParentsThreads) {
  Gate gate;
  std::thread([&] { ASSERT_TRUE(gate.try_lock()); }).join();
  EXPECT_FALSE(gate.try_lock());
  gate.reset();
  EXPECT_TRUE(gate.try_lock());
  gate.unlock();
}

}  // namespace
}  // namespace memreel::agent
