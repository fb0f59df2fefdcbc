// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/heap/block_table.h"

#include <gtest/gtest.h>

namespace memreel {
namespace {

TEST(BlockTable, SplittingAndMergingKeepsNeighboursAndBytes) {
  BlockTable table;
  const BlockId tail = table.add(Address{0x1000}, 8_KiB, 5);
  const BlockId front = table.split_front(tail, 1_KiB);
  const BlockId middle = table.split_front(tail, 2_KiB);

  EXPECT_EQ(table[front].address, Address{0x1000});
  EXPECT_EQ(table[middle].address, Address{0x1400});
  EXPECT_EQ(table[tail].address, Address{0x1C00});
  EXPECT_EQ(table[tail].size, 5_KiB);
  EXPECT_EQ(table[front].next, middle);
  EXPECT_EQ(table[middle].next, tail);
  EXPECT_EQ(table[middle].arena, 5U);
  EXPECT_TRUE(table[front].is_split());

  table.absorb_previous(middle);
  table.absorb_next(middle);
  EXPECT_EQ(table[middle].address, Address{0x1000});
  EXPECT_EQ(table[middle].size, 8_KiB);
  EXPECT_FALSE(table[middle].is_split());
}

TEST(BlockTable, ReusesTheNumbersOfBlocksThatAreGone) {
  BlockTable table;
  const BlockId block = table.add(Address{}, 1_MiB, 0);
  for (int i = 0; i < 100; ++i) {
    table.split_front(block, 512_B);
    table.absorb_previous(block);
  }
  EXPECT_EQ(table.limit(), 2U);
}

TEST(BlockTable, RemovingABlockLeavesItsNeighbourAlone) {
  BlockTable table;
  const BlockId first = table.add(Address{0}, 1_KiB, 0);
  const BlockId second = table.add(Address{1024}, 1_KiB, 0);
  table.link(first, second);
  table.remove(second);
  EXPECT_FALSE(table[first].is_split());
}

}  // namespace
}  // namespace memreel
