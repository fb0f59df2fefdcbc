// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/heap/best_fit_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>
#include <tuple>
#include <vector>

#include "tests/bench/synthetic.h"

namespace memreel {
namespace {

/// The order that the index guarantees, maintained by the standard library.
class Model {
 public:
  using Key = std::tuple<std::uint64_t, std::uint64_t, std::uint32_t>;  // size, tie, block

  void insert(Bytes size, std::uint64_t tie, BlockId block) { keys_.insert({size.count, tie, index(block)}); }
  void erase(const Key& key) { keys_.erase(key); }
  const Key* find(Bytes size) const {
    const auto found = keys_.lower_bound({size.count, 0, 0});
    return found == keys_.end() ? nullptr : &*found;
  }
  const std::set<Key>& keys() const { return keys_; }

 private:
  std::set<Key> keys_;
};

template <class Tie>
void expect_same(const FitIndex<Tie>& index, const Model& model, Bytes least) {
  std::vector<BlockId> expected, large;
  for (const auto& [size, tie, block] : model.keys()) {
    expected.push_back(BlockId{block});
    if (size >= least.count) large.push_back(BlockId{block});
  }
  EXPECT_EQ(index.ordered(), expected);
  std::vector<BlockId> visited;
  index.for_each(least, [&](BlockId id) { visited.push_back(id); });
  std::ranges::sort(visited);
  std::ranges::sort(large);
  EXPECT_EQ(visited, large);
  for (std::size_t i = 0; i < expected.size(); ++i)
    ASSERT_EQ(index.after(expected[i]), i + 1 < expected.size() ? expected[i + 1] : BlockId::none);
  EXPECT_EQ(index.largest().count, expected.empty() ? 0 : std::get<0>(*model.keys().rbegin()));
  EXPECT_EQ(index.empty(), expected.empty());
}

struct Workload {
  const char* name;
  Bytes max_size;
  std::size_t most_blocks;
  std::uint64_t distinct_sizes;  // 0: any
  unsigned address_bits = 47;
};

/// Random insertions, searches and erasures. `tie`: the tie-breaker of a block that is about to be inserted.
template <class Tie, class TieOf>
void expect_like_set(FitIndex<Tie>& index, BlockTable& table, const Workload& load, TieOf tie) {
  synthetic::Random random(7);
  Model model;
  const auto any_size = [&] {
    if (load.distinct_sizes != 0) return 512_B * (1000 + random.below(load.distinct_sizes));
    return round_up(Bytes{random.log_uniform(512, load.max_size.count)}, 512_B);
  };
  for (std::uint32_t i = 0; i < 60'000; ++i) {
    const bool fill = i % 20'000 < 12'000;  // grows large bins, then empties them again
    if (model.keys().size() < load.most_blocks && random.below(10) < (fill ? 7U : 3U)) {
      const Bytes size = any_size();
      const BlockId block =
          table.add(Address{512 * random.below(std::uint64_t{1} << (load.address_bits - 9))}, size, 0);
      model.insert(size, tie(block), block);
      index.insert(block);
    }
    const Bytes wanted = any_size();
    const Model::Key* expected = model.find(wanted);
    const BlockId block = expected ? BlockId{std::get<2>(*expected)} : BlockId::none;
    const auto found = index.search(wanted);
    ASSERT_EQ(found.block, block) << "size " << wanted.count;
    if (expected && random.below(10) < (fill ? 3U : 7U)) {
      if (random.chance(2))
        index.erase(found);
      else
        index.erase(block);
      model.erase(*expected);
      table.remove(block);
    }
    if (i % 1000 == 0) expect_same(index, model, any_size());
  }
  expect_same(index, model, any_size());
}

class FitIndexLikeSet : public ::testing::TestWithParam<Workload> {};

TEST_P(FitIndexLikeSet, LowestFirst) {
  BlockTable table;
  BestFitIndex index(table, 9);
  expect_like_set(index, table, GetParam(), [&](BlockId block) { return table[block].address.value; });
}

TEST_P(FitIndexLikeSet, OldestFirst) {
  BlockTable table;
  BlockAges ages;
  OldestFitIndex index(table, 9, OldestFirst(ages));
  expect_like_set(index, table, GetParam(), [&, now = std::uint64_t{0}](BlockId block) mutable {
    ages.renew(block);
    return ++now;
  });
}

INSTANTIATE_TEST_SUITE_P(Sizes, FitIndexLikeSet,
                         ::testing::Values(Workload{"Few", 16_MiB, 20, 0}, Workload{"Any", 32_GiB, 5000, 0},
                                           Workload{"Small", 16_KiB, 3000, 0}, Workload{"OneSize", 0_B, 6000, 1},
                                           Workload{"OneBin", 0_B, 6000, 20},
                                           Workload{"AsLargeAsCanBe", BestFitIndex::max_size, 5000, 0},
                                           Workload{"AnyAddress", 1_GiB, 3000, 0, 64},
                                           Workload{"OneSizeAnyAddress", 0_B, 3000, 3, 64}),
                         [](const auto& test) { return test.param.name; });

TEST(BestFitIndex, TakesTheLowestAddressOfEqualSizes) {
  BlockTable table;
  BestFitIndex index(table, 9);
  index.insert(table.add(Address{0x3000}, 1_MiB, 0));
  const BlockId lowest = table.add(Address{0x1000}, 1_MiB, 0);
  index.insert(lowest);
  index.insert(table.add(Address{0x2000}, 1_MiB, 0));
  EXPECT_EQ(index.find(1_MiB - 512_B), lowest);
}

TEST(OldestFitIndex, TakesTheOldestOfEqualSizes) {
  BlockTable table;
  BlockAges ages;
  OldestFitIndex index(table, 9, OldestFirst(ages));
  const auto add = [&](Address address, Bytes size) {
    const BlockId id = table.add(address, size, 0);
    ages.renew(id);
    index.insert(id);
    return id;
  };
  const BlockId first = add(Address{0x3000}, 4_KiB);
  const BlockId second = add(Address{0x2000}, 4_KiB);
  const BlockId smaller = add(Address{0x1000}, 1_KiB);
  EXPECT_EQ(index.find(2_KiB), first);
  index.erase(first);
  ages.renew(first);
  index.insert(first);  // now the youngest
  EXPECT_EQ(index.find(2_KiB), second);
  EXPECT_EQ(index.find(5_KiB), BlockId::none);
  EXPECT_EQ(index.after(second), first);
  EXPECT_EQ(index.ordered(), (std::vector{smaller, second, first}));
}

TEST(OldestFitIndex, BlocksOfTwoIndexesKeepTheirAgesWhenTheyMove) {
  BlockTable table;
  BlockAges ages;
  OldestFitIndex one(table, 9, OldestFirst(ages)), other(table, 9, OldestFirst(ages));
  std::vector<BlockId> blocks;
  for (std::uint32_t i = 0; i < 40; ++i) {
    blocks.push_back(table.add(Address{} + 1_MiB * i, 1_MiB, 0));
    ages.renew(blocks.back());
    one.insert(blocks.back());
  }
  for (const std::uint32_t i : {30U, 3U, 17U}) {
    one.erase(blocks[i]);
    other.insert(blocks[i]);
  }
  EXPECT_EQ(other.ordered(), (std::vector{blocks[3], blocks[17], blocks[30]}));
  EXPECT_EQ(one.after(blocks[16]), blocks[18]);
}

TEST(OldestFitIndex, AQueueThatRunsEmptyKeepsItsOrder) {
  BlockTable table;
  BlockAges ages;
  OldestFitIndex index(table, 9, OldestFirst(ages));
  std::vector<BlockId> blocks;
  for (std::uint32_t i = 0; i < 300; ++i) {
    blocks.push_back(table.add(Address{} + 1_MiB * i, 1_MiB, 0));
    ages.renew(blocks.back());
    index.insert(blocks.back());
  }
  for (const BlockId oldest : blocks) {
    ASSERT_EQ(index.find(1_B), oldest);
    index.erase(oldest);
  }
  EXPECT_TRUE(index.empty());
}

TEST(BestFitIndex, HoldsTheLargestSizesAndRefusesLargerRequests) {
  BlockTable table;
  BestFitIndex index(table, 8);
  const BlockId largest = table.add(Address{0}, BestFitIndex::max_size, 0);
  const BlockId next = table.add(Address{0}, BestFitIndex::max_size - 256_B, 0);
  index.insert(largest);
  index.insert(next);
  EXPECT_EQ(index.largest(), BestFitIndex::max_size);
  EXPECT_EQ(index.find(BestFitIndex::max_size), largest);
  EXPECT_EQ(index.find(BestFitIndex::max_size - 256_B), next);
  const std::function<BlockId(Bytes)> find = [&](Bytes size) { return index.find(size); };
  EXPECT_EQ(find(Bytes{~std::uint64_t{0}}), BlockId::none);
}

}  // namespace
}  // namespace memreel
