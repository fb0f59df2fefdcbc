// SPDX-License-Identifier: Apache-2.0
// The tree of all stacks: what is inserted can be read back, is stored once, from any number of threads.
#include "collector/stacks/stack_tree.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <thread>
#include <vector>

namespace memreel::stacks {
namespace {

using Keys = std::vector<FrameKey>;

Keys frames_of(const StackTree& tree, StackKey key) {
  Keys frames;
  for (; key != StackKey::none; key = tree[key].caller) frames.push_back(tree[key].frame);
  return frames;
}

/// Stacks like those of programs: common outer frames, a few variants further in.
Keys random_stack(std::mt19937& random, std::uint64_t variants) {
  Keys outermost_first;
  const std::size_t depth = 1 + random() % 40;
  for (std::size_t i = 0; i < depth; ++i) outermost_first.push_back({1000 * (i + 1) + random() % variants});
  return {outermost_first.rbegin(), outermost_first.rend()};
}

class StackTreeTest : public ::testing::Test {
 protected:
  StackKey insert(const Keys& frames) { return tree_.insert(frames); }

  StackTree tree_{1U << 14U};
};

TEST_F(StackTreeTest, ReturnsTheFramesOfEveryStack) {
  std::mt19937 random(1);
  std::map<std::uint32_t, Keys> inserted;
  for (int i = 0; i < 1000; ++i) {
    const Keys frames = random_stack(random, 2);
    const StackKey key = insert(frames);
    ASSERT_NE(key, StackKey::none);
    const auto [position, is_new] = inserted.try_emplace(static_cast<std::uint32_t>(key), frames);
    ASSERT_EQ(position->second, frames) << "two stacks with one key";
  }
  for (const auto& [key, frames] : inserted) EXPECT_EQ(frames_of(tree_, StackKey{key}), frames);
}

TEST_F(StackTreeTest, EqualStacksHaveEqualKeysAndShareTheirCallers) {
  const StackKey abc = insert({{3}, {2}, {1}});
  EXPECT_EQ(insert({{3}, {2}, {1}}), abc);
  EXPECT_EQ(insert({{2}, {1}}), tree_[abc].caller);
  EXPECT_EQ(tree_.size(), 3U);
  EXPECT_NE(insert({{3}, {1}}), abc);
  EXPECT_EQ(tree_.size(), 4U);
}

TEST_F(StackTreeTest, CallersHaveSmallerKeys) {
  std::mt19937 random(2);
  for (int i = 0; i < 300; ++i)
    for (StackKey key = insert(random_stack(random, 3)); key != StackKey::none; key = tree_[key].caller)
      ASSERT_LT(static_cast<std::uint32_t>(tree_[key].caller), static_cast<std::uint32_t>(key));
}

TEST_F(StackTreeTest, NoFramesNoStack) {
  EXPECT_EQ(insert({}), StackKey::none);
  EXPECT_EQ(tree_.size(), 0U);
  EXPECT_EQ(tree_.refused(), 0U);
}

TEST(StackTree, AFullOneKnowsWhatItHasAndCountsTheRest) {
  StackTree tree(3);
  const Keys known{{3}, {2}, {1}};
  const StackKey key = tree.insert(known);
  EXPECT_EQ(tree.insert(Keys{{4}, {2}, {1}}), StackKey::none);
  EXPECT_EQ(tree.insert(Keys{{4}, {2}, {1}}), StackKey::none);
  EXPECT_EQ(tree.refused(), 2U);
  EXPECT_EQ(tree.size(), 3U);
  EXPECT_EQ(tree.insert(known), key);
  EXPECT_EQ(tree.insert(Keys{{2}, {1}}), tree[key].caller);
  EXPECT_EQ(frames_of(tree, key), known);
}

TEST(StackTree, WithoutMemoryItIsFullFromTheBeginning) {
  StackTree tree(0);
  EXPECT_EQ(tree.insert(Keys{{1}}), StackKey::none);
  EXPECT_EQ(tree.refused(), 1U);
  EXPECT_EQ(tree.size(), 0U);
}

/// Threads that insert the same stacks concurrently agree on every key; a small tree fills up under them.
TEST(StackTree, ThreadsAgree) {
  for (const std::uint32_t capacity : {1U << 16U, 500U}) {
    StackTree tree(capacity);
    constexpr int thread_count = 4, stack_count = 2000;
    std::vector<std::vector<StackKey>> keys(thread_count);
    std::vector<std::thread> threads;
    for (int t = 0; t < thread_count; ++t)
      threads.emplace_back([&, t] {
        std::mt19937 random(7);  // the same for all
        for (int i = 0; i < stack_count; ++i) {
          const Keys frames = random_stack(random, 2);
          keys[static_cast<std::size_t>(t)].push_back(tree.insert(frames));
        }
      });
    for (std::thread& thread : threads) thread.join();

    std::mt19937 random(7);
    std::size_t refused = 0;
    for (std::size_t i = 0; i < stack_count; ++i) {
      const Keys frames = random_stack(random, 2);
      StackKey agreed = StackKey::none;
      for (const auto& of_thread : keys) {
        if (of_thread[i] == StackKey::none) {
          ++refused;
          continue;
        }
        if (agreed == StackKey::none) agreed = of_thread[i];
        ASSERT_EQ(of_thread[i], agreed);
        ASSERT_EQ(frames_of(tree, agreed), frames);
      }
    }
    EXPECT_EQ(tree.refused(), refused);
    EXPECT_EQ(refused == 0, capacity > 500) << tree.size();
  }
}

}  // namespace
}  // namespace memreel::stacks
