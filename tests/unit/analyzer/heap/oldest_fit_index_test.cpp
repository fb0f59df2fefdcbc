#include "analyzer/heap/oldest_fit_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "tests/bench/synthetic.h"

namespace memreel {
namespace {

TEST(OldestFitIndex, OfEqualBlocksTheOldestIsFound) {
  OldestFitIndex index;
  index.insert(BlockId{7}, 4_KiB);
  index.insert(BlockId{3}, 4_KiB);
  index.insert(BlockId{5}, 1_KiB);
  EXPECT_EQ(index.find(2_KiB), BlockId{7});
  index.erase(BlockId{7}, 4_KiB);
  index.insert(BlockId{7}, 4_KiB);  // now the youngest
  EXPECT_EQ(index.find(2_KiB), BlockId{3});
  EXPECT_EQ(index.find(5_KiB), BlockId::none);
  EXPECT_EQ(index.find_if(1_B, [](BlockId id) { return id != BlockId{5} && id != BlockId{3}; }), BlockId{7});
  EXPECT_EQ(index.ordered(), (std::vector{BlockId{5}, BlockId{3}, BlockId{7}}));
}

TEST(OldestFitIndex, FindsWhatALinearSearchFinds) {
  synthetic::Random random(1);
  OldestFitIndex index;
  std::vector<std::pair<BlockId, Bytes>> blocks;  // oldest first
  for (std::uint32_t step = 0; step < 20'000; ++step) {
    if (blocks.size() < 700 && random.below(100) < 55) {
      blocks.emplace_back(BlockId{step}, 512_B * (1 + random.below(60)));
      index.insert(blocks.back().first, blocks.back().second);
    } else if (!blocks.empty()) {
      const auto gone = blocks.begin() + static_cast<std::ptrdiff_t>(random.below(blocks.size()));
      index.erase(gone->first, gone->second);
      blocks.erase(gone);
    }
    const Bytes wanted = 512_B * random.below(65);
    auto best = blocks.end();
    for (auto block = blocks.begin(); block != blocks.end(); ++block)
      if (block->second >= wanted && (best == blocks.end() || block->second < best->second)) best = block;
    ASSERT_EQ(index.find(wanted), best == blocks.end() ? BlockId::none : best->first);
    ASSERT_EQ(index.empty(), blocks.empty());
  }
}

}  // namespace
}  // namespace memreel
