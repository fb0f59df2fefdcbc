// SPDX-License-Identifier: Apache-2.0
// The arena for parsed documents: what it frees and what it keeps.
#include "formats/import/source/value_arena.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <vector>

namespace memreel {
namespace {

std::vector<std::int64_t> numbers(const ValueArena& arena, Value list) {
  std::vector<std::int64_t> result;
  for (const Value item : arena.items(list)) result.push_back(*arena.as_signed(item));
  return result;
}

TEST(ValueArena, KeepsNumbersOfAllSizes) {
  ValueArena arena;
  for (const std::int64_t number : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{1} << 59U, std::int64_t{1} << 60U,
                                    -(std::int64_t{1} << 60U), std::numeric_limits<std::int64_t>::max()})
    EXPECT_EQ(arena.as_signed(arena.integer(number)), number);
  const std::uint64_t largest = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(arena.as_unsigned(arena.integer(largest)), largest);
  EXPECT_FALSE(arena.as_signed(arena.integer(largest)));
  EXPECT_FALSE(arena.as_unsigned(arena.integer(std::int64_t{-1})));
  EXPECT_EQ(arena.as_number(arena.number(0.1)), 0.1);
}

TEST(ValueArena, ListsThatGrowInTurnKeepTheirItems) {
  ValueArena arena;
  const std::array lists{arena.make(ValueKind::list), arena.make(ValueKind::list), arena.make(ValueKind::list)};
  std::vector<std::int64_t> expected;
  for (std::int64_t i = 0; i < 100; ++i) {
    expected.push_back(i);
    const Value number = arena.integer(i);
    for (const Value list : lists) ASSERT_TRUE(arena.append(list, std::span(&number, 1)));
  }
  for (const Value list : lists) EXPECT_EQ(numbers(arena, list), expected);
}

TEST(ValueArena, RecyclingKeepsWhatIsNotUsed) {
  ValueArena arena;
  const std::array items{arena.integer(std::int64_t{1}), arena.integer(std::int64_t{2}),
                         arena.integer(std::int64_t{3})};
  const Value old = arena.make(ValueKind::list);
  ASSERT_TRUE(arena.append(old, items));
  arena.recycle();
  const std::size_t before = arena.extent().items;
  for (int round = 0; round < 100; ++round) {
    const Value used = arena.make(ValueKind::dict);
    ASSERT_TRUE(arena.append(used, std::span(items).first(2)));
    arena.use(used, 7);
    EXPECT_EQ(arena.used(used), 7U);
    EXPECT_TRUE(arena.items(used).empty());
    EXPECT_FALSE(arena.append(used, items)) << "what was used can't grow";
    arena.recycle();
  }
  EXPECT_EQ(arena.extent().items, before) << "used items take no memory";
  const Value kept = arena.make(ValueKind::list);
  const Value used = arena.make(ValueKind::list);
  ASSERT_TRUE(arena.append(used, items));
  ASSERT_TRUE(arena.append(kept, items));
  arena.use(used, 0);
  arena.recycle();
  EXPECT_EQ(numbers(arena, kept), (std::vector<std::int64_t>{1, 2, 3}));
  ASSERT_TRUE(arena.append(kept, items));
  EXPECT_EQ(numbers(arena, kept), (std::vector<std::int64_t>{1, 2, 3, 1, 2, 3}));
  EXPECT_EQ(numbers(arena, old), (std::vector<std::int64_t>{1, 2, 3}));
}

TEST(ValueArena, AnOldListThatGrowsSurvivesRecycling) {
  ValueArena arena;
  const Value number = arena.integer(std::int64_t{5});
  const Value list = arena.make(ValueKind::list);
  for (int round = 0; round < 20; ++round) {
    ASSERT_TRUE(arena.append(list, std::span(&number, 1)));
    const Value used = arena.make(ValueKind::list);
    ASSERT_TRUE(arena.append(used, std::span(&number, 1)));
    arena.use(used, 0);
    arena.recycle();
  }
  EXPECT_EQ(numbers(arena, list), std::vector<std::int64_t>(20, 5));
}

}  // namespace
}  // namespace memreel
