// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/heap/maxima.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "tests/bench/synthetic.h"

namespace memreel {
namespace {

TEST(Tournament, TheLeastIsThatOfAMap) {
  synthetic::Random random(3);
  Tournament tournament;
  std::map<std::uint64_t, unsigned> places;  // by number
  for (int i = 0; i < 50'000; ++i) {
    const bool fill = i % 5000 < 3000;
    const std::uint64_t number = random.below(Tournament::limit);
    if (!tournament.full() && random.below(10) < (fill ? 8U : 2U) && !places.contains(number))
      places[number] = tournament.add(number);
    ASSERT_EQ(tournament.size(), places.size());
    if (places.empty()) continue;
    ASSERT_EQ(tournament.least(), places.begin()->second);
    if (random.below(10) >= (fill ? 8U : 2U)) continue;
    auto gone = random.chance(2) ? places.begin() : places.lower_bound(number);
    if (gone == places.end()) gone = places.begin();
    tournament.remove(gone->second);
    places.erase(gone);
  }
}

TEST(Tournament, HoldsAsManyAsItSays) {
  Tournament tournament;
  for (unsigned i = 0; i < Tournament::capacity; ++i) {
    ASSERT_FALSE(tournament.full());
    tournament.add(Tournament::capacity - i);
  }
  EXPECT_TRUE(tournament.full());
  std::map<std::uint64_t, unsigned> visited;
  tournament.for_each([&](unsigned place, std::uint64_t number) { visited[number] = place; });
  ASSERT_EQ(visited.size(), Tournament::capacity);
  for (const auto& [number, place] : visited) {  // ascending
    EXPECT_EQ(tournament.least(), place);
    tournament.remove(place);
  }
  EXPECT_EQ(tournament.size(), 0U);
}

TEST(Tournament, TheHighestNumbersCountInEveryPlace) {
  Tournament tournament;
  for (unsigned i = 1; i <= Tournament::capacity; ++i) tournament.add(Tournament::limit - i);
  unsigned visited = 0;
  tournament.for_each([&](unsigned, std::uint64_t) { ++visited; });
  EXPECT_EQ(visited, Tournament::capacity);
}

TEST(Maxima, AreThoseOfAVector) {
  synthetic::Random random(5);
  for (const std::size_t count : {1U, 2U, 3U, 64U, 100U}) {
    Maxima maxima(count);
    std::vector<Bytes> values(count);
    for (int i = 0; i < 2'000; ++i) {
      const std::size_t number = random.below(count);
      values[number] = {random.below(50)};
      maxima.set(number, values[number]);
      ASSERT_EQ(maxima.largest(), std::ranges::max(values));
      const std::size_t from = random.below(count);
      const Bytes least{1 + random.below(60)};
      const auto first = std::find_if(values.begin() + static_cast<std::ptrdiff_t>(from), values.end(),
                                      [&](Bytes value) { return value >= least; });
      ASSERT_EQ(std::min(maxima.first(least, from), count), static_cast<std::size_t>(first - values.begin()));
    }
  }
}

}  // namespace
}  // namespace memreel
