// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/heap/address_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "tests/bench/synthetic.h"

namespace memreel {
namespace {

struct Gap {
  Bytes size;
  BlockId block;
};

TEST(AddressIndex, FindsTheFirstThatFitsAtOrAfterAnAddress) {
  synthetic::Random random(11);
  AddressIndex index;
  std::map<Address, Gap> model;
  for (std::uint32_t i = 0; i < 40'000; ++i) {
    const bool fill = i % 20'000 < 12'000;
    const Address address{512 * random.below(1U << 16U)};
    if (random.below(10) < (fill ? 7U : 2U)) {
      const Gap gap{512_B * (1 + random.below(1000)), BlockId{i}};
      if (model.emplace(address, gap).second) index.insert(address, gap.size, gap.block);
    } else if (const auto gap = model.lower_bound(address); gap != model.end()) {
      index.erase(gap->first, gap->second.size);
      model.erase(gap);
    }
    const Address from{512 * random.below(1U << 16U)};
    const Bytes wanted = 512_B * (1 + random.below(1010));
    const auto expected = std::find_if(model.lower_bound(from), model.end(),
                                       [&](const auto& entry) { return entry.second.size >= wanted; });
    ASSERT_EQ(index.find(from, wanted), expected == model.end() ? BlockId::none : expected->second.block);
    if (i % 500 == 0) {
      Bytes largest;
      for (const auto& [unused, gap] : model) largest = std::max(largest, gap.size);
      ASSERT_EQ(index.largest(), largest);
    }
  }
}

}  // namespace
}  // namespace memreel
