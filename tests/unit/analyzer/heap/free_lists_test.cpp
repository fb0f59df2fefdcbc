// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/heap/block_table.h"

#include <gtest/gtest.h>

#include <vector>

namespace memreel {
namespace {

std::vector<BlockId> blocks_of(const FreeLists& lists, std::uint32_t list) {
  std::vector<BlockId> blocks;
  lists.for_each(list, [&](BlockId id) { blocks.push_back(id); });
  return blocks;
}

TEST(FreeLists, TheLastOneAddedIsTheFirst) {
  FreeLists lists(2);
  EXPECT_TRUE(lists.empty(0));
  for (const std::uint32_t id : {5U, 0U, 900U}) lists.push_front(0, BlockId{id});
  lists.push_front(1, BlockId{7});
  EXPECT_EQ(lists.front(0), BlockId{900});
  EXPECT_EQ(blocks_of(lists, 0), (std::vector{BlockId{900}, BlockId{0}, BlockId{5}}));
  EXPECT_EQ(blocks_of(lists, 1), std::vector{BlockId{7}});
}

TEST(FreeLists, ErasingSaysWhenAListIsEmptyThen) {
  FreeLists lists(2);
  for (const std::uint32_t id : {1U, 2U, 3U}) lists.push_front(1, BlockId{id});
  EXPECT_FALSE(lists.erase(BlockId{2}));
  EXPECT_EQ(blocks_of(lists, 1), (std::vector{BlockId{3}, BlockId{1}}));
  EXPECT_FALSE(lists.erase(BlockId{3}));
  EXPECT_TRUE(lists.erase(BlockId{1}));
  EXPECT_TRUE(lists.empty(1));
  lists.push_front(0, BlockId{2});
  EXPECT_EQ(lists.front(0), BlockId{2});
}

}  // namespace
}  // namespace memreel
