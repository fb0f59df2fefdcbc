// SPDX-License-Identifier: Apache-2.0
// Two series on one axis.
#include "viewer/model/axis.h"

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "tests/unit/sample_trace.h"
#include "tests/unit/viewer/opened.h"

namespace memreel::viewer {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace): its only way in

/// A loop whose steps take the given times, each allocating one more byte in the middle.
Opened loop_of(const std::vector<Nanoseconds>& steps, Nanoseconds begin) {
  memreel::testing::TraceBuilder build;
  const OriginId origin = build.origin(HeapId{1});
  build.trace().tables.marks.push_back({.name = build.string("step"), .phase = MarkPhase::instant});
  std::vector<Nanoseconds> times{begin};
  std::uint64_t address = 0x1000;
  build.alloc(origin, {address}, 1000_B);
  for (const Nanoseconds step : steps) {
    address += 0x1000;
    const Nanoseconds now = times.back();
    build.alloc(origin, {address}, 1_B);
    times.push_back(now + step / 2);
    build.push({.kind = EventKind::mark, .origin = origin, .value = 1});
    times.push_back(now + step);
  }
  for (std::size_t i = 0; i < times.size(); ++i) memreel::testing::set_time(build.trace().events, i, times[i]);
  return open(memory_file(written(build.trace())));
}

constexpr HeapId heap{1};

TEST(Alignment, ByStepTheSameStepOfBothIsAtTheSamePlace) {
  const Opened quick = loop_of({100ns, 50ns, 50ns}, 1000ns), slow = loop_of({400ns, 800ns, 200ns}, 70'000ns);
  std::vector<SideScale> scales;
  for (const Opened* side : {&quick, &slow}) {
    const Steps steps = steps_of(side->last(), heap);
    ASSERT_EQ(steps.ends.size(), 3U);
    scales.push_back(SideScale::by_step(side->last(), steps));
  }
  EXPECT_EQ(scales[0].time_at(0), 1000ns);
  EXPECT_EQ(scales[1].time_at(0), 70'000ns);
  EXPECT_EQ(scales[0].time_at(1), 1100ns);
  EXPECT_EQ(scales[1].time_at(1), 70'400ns);
  EXPECT_EQ(scales[0].time_at(1.5), 1125ns) << "in the middle of the second";
  EXPECT_EQ(scales[1].time_at(1.5), 70'800ns);
  EXPECT_EQ(scales[1].time_at(3.5), 71'500ns) << "half as long as the last step after it";
  EXPECT_EQ(scales[0].time_at(-0.5), 950ns);
  for (const double position : {-1.0, 0.0, 0.25, 1.0, 2.7, 3.0, 7.0})
    for (const SideScale& scale : scales) EXPECT_NEAR(scale.position_of(scale.time_at(position)), position, 1e-9);

  // Columns between the same positions of both contain the same steps.
  for (std::size_t side = 0; side < 2; ++side) {
    const Document& document = (side == 0 ? quick : slow).last();
    std::vector<Nanoseconds> edges;
    for (int i = 0; i <= 6; ++i) edges.push_back(scales[side].time_at(i / 2.0));
    const auto columns = series_columns(document, *document.series(heap), edges);
    ASSERT_EQ(columns.size(), 6U);
    std::vector<std::uint64_t> live;
    for (const SeriesColumn& column : columns) live.push_back(value_of(column.extent.max, Metric::live));
    EXPECT_EQ(live, (std::vector<std::uint64_t>{1000, 1001, 1001, 1002, 1002, 1003})) << side;
  }
}

TEST(Alignment, ByTimeInstantsAreMovedUponEachOther) {
  SideScale scale = SideScale::by_time(5000ns);
  EXPECT_DOUBLE_EQ(scale.position_of(5200ns), 200);
  scale.move_to_zero(200);
  EXPECT_DOUBLE_EQ(scale.position_of(5200ns), 0);
  EXPECT_EQ(scale.time_at(-300), 4900ns);

  const Opened opened = loop_of({100ns, 50ns}, 0ns);
  SideScale steps = SideScale::by_step(opened.last(), steps_of(opened.last(), heap));
  steps.move_to_zero(1);
  EXPECT_EQ(steps.time_at(0), 100ns) << "the second step is where the first was";
}

TEST(Alignment, ATraceWithoutMarksHasNoSteps) {
  memreel::testing::TraceBuilder build;
  build.alloc(build.origin(heap), {0x1000}, 1_B);
  const Opened opened = open(memory_file(written(build.trace())));
  EXPECT_TRUE(steps_of(opened.last(), heap).ends.empty());
}

}  // namespace
}  // namespace memreel::viewer
