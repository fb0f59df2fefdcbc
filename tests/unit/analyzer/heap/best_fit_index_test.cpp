#include "analyzer/heap/best_fit_index.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <tuple>
#include <vector>

#include "tests/bench/synthetic.h"

namespace memreel {
namespace {

/// The order that the index promises, kept by the standard library.
class Model {
 public:
  using Key = std::tuple<std::uint64_t, std::uint64_t, std::uint32_t>;  // size, address, block

  void insert(Address address, Bytes size, BlockId block) { keys_.insert({size.count, address.value, index(block)}); }
  void erase(const Key& key) { keys_.erase(key); }
  const Key* find(Bytes size) const {
    const auto found = keys_.lower_bound({size.count, 0, 0});
    return found == keys_.end() ? nullptr : &*found;
  }
  const std::set<Key>& keys() const { return keys_; }

 private:
  std::set<Key> keys_;
};

void expect_same(const BestFitIndex& index, const Model& model) {
  std::vector<BlockId> expected;
  for (const auto& [size, address, block] : model.keys()) expected.push_back(BlockId{block});
  EXPECT_EQ(index.ordered(), expected);
  EXPECT_EQ(index.largest().count, expected.empty() ? 0 : std::get<0>(*model.keys().rbegin()));
  EXPECT_EQ(index.empty(), expected.empty());
}

struct Workload {
  const char* name;
  Bytes max_size;
  std::size_t most_blocks;
  std::uint64_t distinct_sizes;  // 0: any
};

class BestFitIndexLikeSet : public testing::TestWithParam<Workload> {};

TEST_P(BestFitIndexLikeSet, FindsInsertsAndErases) {
  const Workload& load = GetParam();
  synthetic::Random random(7);
  BlockTable table;
  BestFitIndex index(table, 9);
  Model model;
  const auto any_size = [&] {
    if (load.distinct_sizes != 0) return 512_B * (1000 + random.below(load.distinct_sizes));
    return round_up(Bytes{random.log_uniform(512, load.max_size.count)}, 512_B);
  };
  for (std::uint32_t i = 0; i < 60'000; ++i) {
    const bool fill = i % 20'000 < 12'000;  // grows long bins, then empties them again
    if (model.keys().size() < load.most_blocks && random.below(10) < (fill ? 7U : 3U)) {
      const Address address{512 * random.below(std::uint64_t{1} << 38U)};
      const Bytes size = any_size();
      const BlockId block = table.add(address, size, 0);
      index.insert(block);
      model.insert(address, size, block);
    }
    const Bytes wanted = any_size();
    const Model::Key* expected = model.find(wanted);
    const BlockId block = expected ? BlockId{std::get<2>(*expected)} : BlockId::none;
    ASSERT_EQ(index.find(wanted), block) << "size " << wanted.count;
    if (expected && random.below(10) < (fill ? 3U : 7U)) {
      index.erase(block);
      model.erase(*expected);
      table.remove(block);
    }
    if (i % 1000 == 0) expect_same(index, model);
  }
  expect_same(index, model);
}

INSTANTIATE_TEST_SUITE_P(Sizes, BestFitIndexLikeSet,
                         testing::Values(Workload{"Few", 16_MiB, 20, 0}, Workload{"Any", 32_GiB, 5000, 0},
                                         Workload{"Small", 16_KiB, 3000, 0}, Workload{"OneSize", 0_B, 6000, 1},
                                         Workload{"OneBin", 0_B, 6000, 20}),
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
