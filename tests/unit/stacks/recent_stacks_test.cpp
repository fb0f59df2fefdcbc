// SPDX-License-Identifier: Apache-2.0
// What a thread remembers of its stacks: it never returns another stack's key.
#include "collector/stacks/recent_walks.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <vector>

namespace memreel::stacks {
namespace {

using Words = std::vector<std::uint64_t>;

TEST(RecentStacks, KnowWhatWasPutLastAndNothingElse) {
  const auto recent = std::make_unique<RecentStacks>();
  std::mt19937 random(1);
  std::map<Words, StackKey> put;
  std::size_t found = 0;
  for (std::uint32_t round = 1; round <= 50'000; ++round) {
    // Stacks of a few words recur; long ones fill the cache several times over.
    Words words(1 + random() % (round % 10 == 0 ? 300 : 6));
    for (std::uint64_t& word : words) word = random() % 5;
    const auto place = RecentStacks::bucket_of(words);
    const StackKey key = recent->find(place, words);
    if (key != StackKey::none) {
      ASSERT_EQ(key, put.at(words));
      ++found;
      continue;
    }
    put[words] = StackKey{round};
    recent->put(place, words, StackKey{round});
    ASSERT_EQ(recent->find(place, words), StackKey{round});
  }
  EXPECT_GT(found, 10'000U);
}

TEST(RecentStacks, TheBeginningOfAStackIsAnother) {
  const auto recent = std::make_unique<RecentStacks>();
  const Words words{1, 2, 3};
  recent->put(RecentStacks::bucket_of(words), words, StackKey{7});
  const Words shorter{1, 2};
  EXPECT_EQ(recent->find(RecentStacks::bucket_of(shorter), shorter), StackKey::none);
  const Words nothing;
  EXPECT_EQ(recent->find(RecentStacks::bucket_of(nothing), nothing), StackKey::none);
}

TEST(RecentStacks, OneThatIsTooLongIsNotKept) {
  const auto recent = std::make_unique<RecentStacks>();
  const Words words(1U << 18U, 5);
  recent->put(RecentStacks::bucket_of(words), words, StackKey{1});
  EXPECT_EQ(recent->find(RecentStacks::bucket_of(words), words), StackKey::none);
}

}  // namespace
}  // namespace memreel::stacks
