// SPDX-License-Identifier: Apache-2.0
// Totals of what a flight recorder has dropped: only resolution is lost.
#include "formats/writer/flight_generation.h"

#include <gtest/gtest.h>

#include <map>
#include <tuple>

#include "tests/bench/synthetic.h"

namespace memreel {
namespace {

using std::chrono::hours, std::chrono::milliseconds, std::chrono::seconds;
using synthetic::Random;

constexpr Nanoseconds start{1'700'000'000'000'000'000};

struct Sum {
  std::uint64_t allocations = 0, frees = 0, allocated = 0, freed = 0;
  friend bool operator==(const Sum&, const Sum&) = default;
};

void add(Sum& sum, const FoldedRow& row) {
  sum.allocations += row.allocations;
  sum.frees += row.frees;
  sum.allocated += row.allocated.count;
  sum.freed += row.freed.count;
}

/// By heap and stack, over all time.
std::map<std::tuple<HeapId, StackId>, Sum> by_site(const FoldedHistory& history) {
  std::map<std::tuple<HeapId, StackId>, Sum> sums;
  for (const FoldedRow& row : history.rows) add(sums[{row.heap, row.stack}], row);
  return sums;
}

void expect_in_order(const FoldedHistory& history) {
  const auto place = [](const FoldedRow& row) { return std::tuple(row.interval, index(row.heap), index(row.stack)); };
  for (std::size_t i = 1; i < history.rows.size(); ++i)
    ASSERT_LT(place(history.rows[i - 1]), place(history.rows[i])) << i;
}

TEST(FoldedTotals, SumsPerStackAreThoseOfAllEventsHoweverLongItTakes) {
  Random random(1);
  FoldedTotals totals(1'000'000);
  std::map<std::tuple<HeapId, StackId>, Sum> truth;
  Nanoseconds time = start;
  for (int i = 0; i < 200'000; ++i) {
    time += milliseconds(random.below(20'000));  // three weeks in total
    const HeapId heap{1 + static_cast<std::uint32_t>(random.below(2))};
    const StackId stack{static_cast<std::uint32_t>(random.below(100))};
    const Bytes size{random.below(1 << 20)};
    Sum& sum = truth[{heap, stack}];
    if (random.chance(2)) {
      totals.allocated(time, heap, stack, size);
      ++sum.allocations;
      sum.allocated += size.count;
    } else {
      totals.freed(time - milliseconds(random.below(100)), heap, stack, size);
      ++sum.frees;
      sum.freed += size.count;
    }
  }
  const FoldedHistory history = totals.history(time);
  expect_in_order(history);
  EXPECT_EQ(by_site(history), truth);
  EXPECT_EQ(history.until, time);
  EXPECT_LE(history.rows.back().interval, FoldedTotals::most_intervals);
  EXPECT_EQ(history.interval, hours(1)) << "the fifth to the thirtieth day";
}

TEST(FoldedTotals, AnIntervalHasWhatHappenedInIt) {
  FoldedTotals totals(1000);
  for (int second = 0; second < 600; ++second)
    for (int i = 0; i <= second % 3; ++i) totals.allocated(start + seconds(second), HeapId{1}, StackId{1}, 8_B);
  const FoldedHistory history = totals.history(start + seconds(600));
  EXPECT_EQ(history.begin, start);
  ASSERT_EQ(history.interval, seconds(10)) << "600 rows of one second are more than half of the room";
  ASSERT_EQ(history.rows.size(), 60);
  for (std::uint32_t i = 0; i < 60; ++i) {
    EXPECT_EQ(history.rows[i].interval, i);
    EXPECT_GE(history.rows[i].allocations, 19);
    EXPECT_LE(history.rows[i].allocations, 21);
  }
}

TEST(FoldedTotals, RowsStayBelowTheLimitAndNothingIsLost) {
  Random random(2);
  constexpr std::size_t most_rows = 64;
  FoldedTotals totals(most_rows);
  Sum truth;
  for (int i = 0; i < 20'000; ++i) {
    const Nanoseconds time = start + milliseconds(i * 10);
    totals.allocated(time, HeapId{1}, StackId{1 + static_cast<std::uint32_t>(random.below(1000))}, 16_B);
    ++truth.allocations;
    truth.allocated += 16;
    if (i % 100 != 0) continue;
    const FoldedHistory history = totals.history(time);
    ASSERT_LE(history.rows.size(), most_rows);
    expect_in_order(history);
    Sum sum;
    for (const FoldedRow& row : history.rows) add(sum, row);
    ASSERT_EQ(sum, truth) << i;
  }
}

TEST(FoldedTotals, ALongPauseIsNoLoopOverItsIntervals) {
  FoldedTotals totals(1000);
  totals.allocated(start, HeapId{1}, StackId{1}, 1_B);
  totals.allocated(start + hours(24) * 365, HeapId{1}, StackId{1}, 2_B);
  const FoldedHistory history = totals.history(start + hours(24) * 365);
  ASSERT_EQ(history.rows.size(), 2);
  EXPECT_LE(history.rows.back().interval, FoldedTotals::most_intervals);
}

}  // namespace
}  // namespace memreel
