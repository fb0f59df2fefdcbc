#include "analyzer/heap/address_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "tests/bench/synthetic.h"

namespace memreel {
namespace {

struct Hole {
  Bytes size;
  BlockId block;
};

TEST(AddressIndex, FindsTheFirstThatFitsAtOrAfterAnAddress) {
  synthetic::Random random(11);
  AddressIndex index;
  std::map<Address, Hole> model;
  for (std::uint32_t i = 0; i < 40'000; ++i) {
    const bool fill = i % 20'000 < 12'000;
    const Address address{512 * random.below(1U << 16U)};
    if (random.below(10) < (fill ? 7U : 2U)) {
      const Hole hole{512_B * (1 + random.below(1000)), BlockId{i}};
      if (model.emplace(address, hole).second) index.insert(address, hole.size, hole.block);
    } else if (const auto hole = model.lower_bound(address); hole != model.end()) {
      index.erase(hole->first, hole->second.size);
      model.erase(hole);
    }
    const Address from{512 * random.below(1U << 16U)};
    const Bytes wanted = 512_B * (1 + random.below(1010));
    const auto expected = std::find_if(model.lower_bound(from), model.end(),
                                       [&](const auto& entry) { return entry.second.size >= wanted; });
    ASSERT_EQ(index.find(from, wanted), expected == model.end() ? BlockId::none : expected->second.block);
    if (i % 500 == 0) {
      Bytes largest;
      for (const auto& [unused, hole] : model) largest = std::max(largest, hole.size);
      ASSERT_EQ(index.largest(), largest);
    }
  }
}

}  // namespace
}  // namespace memreel
