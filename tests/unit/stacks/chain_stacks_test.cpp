// SPDX-License-Identifier: Apache-2.0
// What a thread remembers of stacks with the same Python frames: it never returns another stack's key.
#include "collector/stacks/recent_walks.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <utility>

namespace memreel::stacks {
namespace {

TEST(ChainStacks, KnowTheLastWalksOfTheSameFrames) {
  const auto known = std::make_unique<ChainStacks>();
  EXPECT_EQ(known->find(7, 1), StackKey::none);
  for (std::uint32_t walk = 1; walk <= 5; ++walk) known->put(7, walk, StackKey{walk});
  EXPECT_EQ(known->find(7, 1), StackKey::none) << "there is room for four";
  for (std::uint32_t walk = 2; walk <= 5; ++walk) EXPECT_EQ(known->find(7, walk), StackKey{walk});
  EXPECT_EQ(known->find(8, 2), StackKey::none);
}

TEST(ChainStacks, NeverGiveAnotherStack) {
  const auto known = std::make_unique<ChainStacks>();
  std::mt19937_64 random(1);
  std::map<std::pair<std::uint64_t, std::uint64_t>, StackKey> put;
  std::size_t found = 0;
  for (std::uint32_t round = 1; round <= 200'000; ++round) {
    const std::uint64_t chain = 1 + random() % 10'000, walk = 1 + random() % 6;
    const StackKey key = known->find(chain, walk);
    if (key == StackKey::none) {
      put[{chain, walk}] = StackKey{round};
      known->put(chain, walk, StackKey{round});
      ASSERT_EQ(known->find(chain, walk), StackKey{round});
    } else {
      ASSERT_EQ(key, put.at({chain, walk}));
      ++found;
    }
  }
  EXPECT_GT(found, 10'000U);
}

}  // namespace
}  // namespace memreel::stacks
