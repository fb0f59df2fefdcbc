// SPDX-License-Identifier: Apache-2.0
// A flight recorder's totals, as the viewer shows them.
#include "viewer/model/stacked_series.h"

#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <utility>

namespace memreel::viewer {
namespace {

constexpr HeapId with_sums{1}, other_with_sums{2};
constexpr StackId first_stack{1}, second_stack{2};

Nanoseconds ns(std::int64_t ns) { return Nanoseconds{ns}; }

/// Intervals of 10 ns from 100 to 135.
FoldedHistory flight_sums() {
  return {
      .begin = ns(100),
      .until = ns(135),
      .interval = ns(10),
      .rows = {{.interval = 0,
                .heap = with_sums,
                .stack = first_stack,
                .allocations = 3,
                .frees = 1,
                .allocated = {300},
                .freed = {100}},
               {.interval = 0, .heap = other_with_sums, .stack = first_stack, .allocations = 1, .allocated = {5000}},
               {.interval = 2, .heap = with_sums, .stack = first_stack, .frees = 1, .freed = {100}},
               {.interval = 2, .heap = with_sums, .stack = second_stack, .allocations = 1, .allocated = {50}},
               {.interval = 3, .heap = with_sums, .stack = second_stack, .allocations = 1, .allocated = {7}}}};
}

Document document_of(FoldedHistory history) {
  Document document;
  document.trace = std::make_shared<const Trace>(Trace{.folded = std::move(history)});
  return document;
}

std::vector<StackWeight> weighed(const Document& document, Nanoseconds begin, Nanoseconds end) {
  std::atomic<float> share{0};
  return *weigh_folded(document, with_sums, begin, end, nullptr, Progress({}, share));
}

TEST(FoldedSeries, IsWhatWasLiveWhenEachIntervalEnded) {
  const auto course = folded_series(document_of(flight_sums()), with_sums);
  const std::vector<FoldedPoint> expected{
      {.time = ns(100), .live = {0}},
      {.time = ns(110), .live = {200}},
      {.time = ns(130), .live = {150}},
      {.time = ns(135), .live = {157}},
  };
  EXPECT_EQ(course, expected);
  EXPECT_EQ(folded_live(course, ns(99)), std::nullopt);
  EXPECT_EQ(folded_live(course, ns(100)), Bytes{0});
  EXPECT_EQ(folded_live(course, ns(129)), Bytes{200});
  EXPECT_EQ(folded_live(course, ns(135)), Bytes{157});
  EXPECT_EQ(folded_live(course, ns(136)), std::nullopt);
  EXPECT_TRUE(folded_series(Document(), with_sums).empty());
}

TEST(FoldedSeries, StacksAreWeighedInTheIntervalsOfARange) {
  const Document document = document_of(flight_sums());
  const auto all = weighed(document, ns(0), ns(1000));
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ((std::pair{all[0].stack, all[0].bytes}), (std::pair{first_stack, std::uint64_t{300}}));
  EXPECT_EQ(all[0].count, 3U);
  EXPECT_EQ((std::pair{all[1].stack, all[1].bytes}), (std::pair{second_stack, std::uint64_t{57}}));
  const auto later = weighed(document, ns(110), ns(129));
  ASSERT_EQ(later.size(), 1U);
  EXPECT_EQ(later[0].bytes, 50U) << "of the interval from 120 on";
  EXPECT_TRUE(weighed(document, ns(136), ns(200)).empty());
}

TEST(FoldedSeries, DamagedSumsDoNoHarm) {
  FoldedHistory history = flight_sums();
  history.interval = Nanoseconds{std::numeric_limits<std::int64_t>::max()};
  history.begin = Nanoseconds{std::numeric_limits<std::int64_t>::min()};
  history.until = Nanoseconds{std::numeric_limits<std::int64_t>::max()};
  EXPECT_FALSE(folded_series(document_of(history), with_sums).empty());
  EXPECT_FALSE(weighed(document_of(history), ns(-5), ns(1)).empty());
  history = flight_sums();
  std::swap(history.rows.front().interval, history.rows.back().interval);
  EXPECT_TRUE(folded_live(folded_series(document_of(history), with_sums), ns(105)));
  history = flight_sums();
  history.until = ns(99);
  EXPECT_TRUE(folded_series(document_of(history), with_sums).empty());
  EXPECT_TRUE(weighed(document_of(history), ns(0), ns(1000)).empty());
}

}  // namespace
}  // namespace memreel::viewer
