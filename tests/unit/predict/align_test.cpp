// SPDX-License-Identifier: Apache-2.0
#include "analyzer/predict/align.h"

#include <gmock/gmock.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace memreel {
namespace {

using ::testing::ElementsAre;

constexpr std::uint32_t none = no_partner;

Request request(std::uint32_t site, std::uint64_t size, std::uint32_t lifetime = 0) {
  return {.site = site, .size = Bytes{size}, .lifetime = lifetime};
}

Requests requests(std::vector<Request> rows) {
  Requests made{.rows = std::move(rows)};
  made.ends.push_back(static_cast<std::uint32_t>(made.rows.size()));
  return made;
}

const std::vector<Ratio> doubled = growth_ratios(std::vector<std::uint64_t>{2}, std::vector<std::uint64_t>{4});

TEST(GrowthRatios, ArePowersAndProducts) {
  EXPECT_THAT(doubled, ElementsAre(Ratio{1, 1}, Ratio{4, 2}, Ratio{16, 4}));
  EXPECT_EQ(growth_ratios(std::vector<std::uint64_t>{2, 3}, std::vector<std::uint64_t>{4, 9}).size(), 9U);
  EXPECT_EQ(growth_ratios(std::vector<std::uint64_t>{2, 3}, std::vector<std::uint64_t>{4, 3}).size(), 3U);
}

TEST(Align, PairsWhatIsInTheSameOrder) {
  const Requests a = requests({request(1, 100), request(2, 200), request(3, 300)});
  const Requests b = requests({request(1, 100), request(2, 400), request(3, 600)});
  EXPECT_THAT(align(a, b, doubled), ElementsAre(0, 1, 2));
}

TEST(Align, NeverPairsDifferentSites) {
  EXPECT_THAT(align(requests({request(1, 100)}), requests({request(2, 100)}), doubled), ElementsAre(none));
}

TEST(Align, LeavesOutAWorkspaceThatOnlyOneAskedFor) {
  // All from one call: only sizes and lifetimes identify the new one.
  const Requests a = requests({request(1, 1000, 5), request(1, 2000, 5), request(1, 512, 9)});
  const Requests b = requests({request(1, 2000, 5), request(1, 77777, 0), request(1, 4000, 5), request(1, 512, 9)});
  EXPECT_THAT(align(a, b, doubled), ElementsAre(0, none, 1, 2));
}

TEST(Align, PairsAWorkspaceOfAnotherSizeWithItsCounterpart) {
  const Requests a = requests({request(1, 1000, 5), request(2, 9'000'000, 0), request(3, 1000, 5)});
  const Requests b = requests({request(1, 2000, 5), request(2, 1'000, 0), request(3, 2000, 5)});
  EXPECT_THAT(align(a, b, doubled), ElementsAre(0, 1, 2));
}

TEST(Align, FindsRepeatsAtTheEndOfALoopWhoseSizesGrow) {
  const auto loop = [](std::uint64_t rounds) {
    std::vector<Request> rows{request(9, 64, Request::kept)};
    for (std::uint64_t round = 1; round <= rounds; ++round) {
      rows.push_back(request(1, 1000 * round, 2));
      rows.push_back(request(2, 300, 0));
    }
    rows.push_back(request(8, 64, Request::kept));
    return requests(std::move(rows));
  };
  EXPECT_THAT(align(loop(2), loop(4), doubled), ElementsAre(0, 1, 2, 3, 4, none, none, none, none, 5));
}

TEST(Align, LooksAtStepsOneByOne) {
  Requests a = requests({request(1, 10), request(1, 10), request(1, 10)});
  Requests b = a;
  a.ends = {1, 3};
  b.ends = {2, 3};
  // The first step of `b` has one more than that of `a`, the second one fewer.
  const std::vector<std::uint32_t> partners = align(a, b, doubled);
  EXPECT_EQ(std::ranges::count(partners, none), 1);
  EXPECT_TRUE(partners[2] == 1 || partners[2] == 2);
}

Requests older(std::vector<std::pair<std::uint64_t, std::uint32_t>> sizes) {
  std::vector<Request> rows;
  for (const auto& [size, count] : sizes)
    for (std::uint32_t i = 0; i < count; ++i) rows.push_back({.size = Bytes{size}, .older = true});
  return requests(std::move(rows));
}

TEST(AlignOlder, BlocksOfWhichThereAreEquallyManyArePartners) {
  // Weights, 3 activations that grow into the size of the 2 others, and scores of attention, squared.
  const Requests small = older({{100, 4}, {20, 3}, {40, 2}, {8, 1}});
  const Requests large = older({{100, 4}, {40, 3}, {80, 2}, {32, 1}});
  EXPECT_THAT(align(small, large, doubled), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
  EXPECT_EQ(unmatched_older(small, large, doubled), 0_B);
}

TEST(AlignOlder, SizesThatStayComeFirst) {
  const Requests small = older({{40, 2}, {80, 2}});
  EXPECT_THAT(align(small, small, doubled), ElementsAre(0, 1, 2, 3)) << "not the 40 that become 80";
  // A weight more: weights and activations have one size, and the weights are the larger part.
  const Requests large = older({{40, 3}, {80, 1}});
  EXPECT_EQ(unmatched_older(small, large, doubled), 80_B);
}

TEST(Align, OfTheSameRecordingIsTheIdentity) {
  std::vector<Request> rows;
  for (std::uint32_t i = 0; i < 5000; ++i) rows.push_back(request(i % 7, 512 * (i % 13), i % 5));
  const Requests all = requests(rows);
  const std::vector<std::uint32_t> partners = align(all, all, doubled);
  for (std::uint32_t i = 0; i < partners.size(); ++i) ASSERT_EQ(partners[i], i);
}

TEST(Align, PartnersAreInOrder) {
  std::uint32_t state = 12345;
  const auto random = [&](std::uint32_t below) { return ((state = state * 1664525 + 1013904223) >> 16U) % below; };
  std::vector<Request> a_rows, b_rows;
  for (int i = 0; i < 800; ++i) {
    const Request row = request(random(4), 512ULL * random(9), random(6));
    if (random(10) > 0) a_rows.push_back(row);
    if (random(10) > 0) b_rows.push_back(row);
  }
  const Requests a = requests(a_rows), b = requests(b_rows);
  std::uint32_t behind = 0;
  const std::vector<std::uint32_t> partners = align(a, b, doubled);
  for (std::uint32_t j = 0; j < partners.size(); ++j) {
    if (partners[j] == none) continue;
    EXPECT_GE(partners[j], behind);
    EXPECT_EQ(a.rows[partners[j]].site, b.rows[j].site);
    behind = partners[j] + 1;
  }
}

}  // namespace
}  // namespace memreel
