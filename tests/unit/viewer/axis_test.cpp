// SPDX-License-Identifier: Apache-2.0
// An axis of time, events or steps; ranges, as room permits; stacks with one name.
#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "tests/unit/sample_trace.h"
#include "tests/unit/viewer/opened.h"
#include "viewer/app/screen_scale.h"
#include "viewer/model/axis.h"
#include "viewer/model/comparison.h"
#include "viewer/model/mark_bands.h"
#include "viewer/model/selection.h"

namespace memreel::viewer {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace): its only way in

/// Events at the given times; each allocates a byte.
std::shared_ptr<const Document> events_at(const std::vector<Nanoseconds>& times) {
  memreel::testing::TraceBuilder build;
  const OriginId origin = build.origin(HeapId{1});
  for (std::size_t i = 0; i < times.size(); ++i) {
    build.alloc(origin, {0x1000 * (i + 1)}, 1_B);
    memreel::testing::set_time(build.trace().events, i, times[i]);
  }
  return open(memory_file(written(build.trace()))).versions.back();
}

TEST(Axis, OfEventsGivesABusyMillisecondAsMuchRoomAsASecondOfNothing) {
  const auto document = events_at({100ns, 101ns, 102ns, 103ns, 1000ns, 2000ns});
  const AxisScale axis = AxisScale::by_events(document);
  EXPECT_EQ(axis.by(), AxisBy::event);
  EXPECT_DOUBLE_EQ(axis.position_of(100ns), 1);
  EXPECT_DOUBLE_EQ(axis.position_of(103ns), 4);
  EXPECT_DOUBLE_EQ(axis.position_of(1000ns), 5);
  EXPECT_NEAR(axis.position_of(1500ns), 5.5, 0.01) << "it moves on between events";
  EXPECT_DOUBLE_EQ(axis.position_of(5000ns), 6);
  for (const Nanoseconds time : {100ns, 102ns, 103ns, 1000ns, 2000ns})
    EXPECT_EQ(axis.time_at(axis.position_of(time)), time);
  const std::vector<Nanoseconds> edges = axis.edges(100ns, 2000ns, 5);
  EXPECT_EQ(edges, (std::vector<Nanoseconds>{100ns, 101ns, 102ns, 103ns, 1000ns, 2000ns}));
}

TEST(Axis, OfTimeCutsARangeIntoEqualParts) {
  EXPECT_EQ(AxisScale().edges(1'800'000'000'000'000'001ns, 1'800'000'000'000'000'005ns, 4).at(1),
            1'800'000'000'000'000'002ns)
      << "to the nanosecond of any date";
}

TEST(Axis, ZoomingAndMovingKeepsWhatIsUnderThePointer) {
  std::vector<Nanoseconds> times;
  for (int i = 0; i < 100; ++i) times.emplace_back(i < 90 ? 1000 + i : 100'000 * (i - 89));
  const auto document = events_at(times);
  Selection selection;
  selection.axis = AxisScale::by_events(document);
  selection.look_at_all(*document);
  const Nanoseconds anchor = document->time(49);
  const auto share = [&] {
    const double begin = selection.axis.position_of(selection.view.begin);
    return (selection.axis.position_of(anchor) - begin) / (selection.axis.position_of(selection.view.end) - begin);
  };
  const double before = share();
  selection.zoom(*document, 0.5, anchor);
  EXPECT_NEAR(share(), before, 0.02);
  EXPECT_LT(selection.viewed(*document).end - selection.viewed(*document).first, 60U);
  const std::uint32_t first = selection.viewed(*document).first;
  selection.pan(*document, 0.5);
  EXPECT_NEAR(selection.viewed(*document).first, first + 25, 2);
  selection.pan(*document, 1e6);
  EXPECT_EQ(selection.viewed(*document).end, 100U) << "not beyond the end";
}

TEST(Bands, NeighboursThatAreTooNarrowAreOneWithTheirNumber) {
  memreel::testing::TraceBuilder build;
  const OriginId origin = build.origin(HeapId{1});
  auto& marks = build.trace().tables.marks;
  const StringId step = build.string("step");
  marks.push_back({.name = step, .phase = MarkPhase::begin});
  marks.push_back({.name = step, .phase = MarkPhase::end});
  std::vector<Nanoseconds> times;
  const auto mark = [&](std::uint64_t which, Nanoseconds at) {
    build.push({.kind = EventKind::mark, .origin = origin, .value = which});
    times.push_back(at);
  };
  for (int i = 0; i < 60; ++i) {
    mark(1, Nanoseconds{1000 + 10 * i});
    mark(2, Nanoseconds{1000 + 10 * i + 9});
  }
  mark(1, 5000ns);
  mark(2, 9000ns);
  for (std::size_t i = 0; i < times.size(); ++i) memreel::testing::set_time(build.trace().events, i, times[i]);
  const auto document = open(memory_file(written(build.trace()))).versions.back();
  const auto bands_at = [&](double pixels_per_ns) {
    return mark_bands(
        *document, 0, document->event_count(),
        [=](Nanoseconds time) { return pixels_per_ns * static_cast<double>(time.count()); },
        [=](double x) { return Nanoseconds{static_cast<std::int64_t>(x / pixels_per_ns)}; }, {});
  };
  const std::vector<MarkBand> narrow = bands_at(0.1);
  ASSERT_EQ(narrow.size(), 2U);
  EXPECT_EQ(narrow[0].count, 60U);
  EXPECT_TRUE(narrow[0].same_name && narrow[0].counted);
  EXPECT_EQ(narrow[0].begin, 1000ns);
  EXPECT_EQ(narrow[0].end, 1599ns);
  EXPECT_EQ(narrow[1].count, 1U);
  EXPECT_EQ(bands_at(10).size(), 61U) << "with room each is by itself";
}

TEST(Bands, RangesNestAndAreNumbered) {
  memreel::testing::TraceBuilder build;
  const OriginId origin = build.origin(HeapId{1});
  auto& marks = build.trace().tables.marks;
  for (const char* const text : {"step", "forward", "ProfilerStep#7"}) {
    const StringId name = build.string(text);
    for (const MarkPhase phase : {MarkPhase::begin, MarkPhase::end}) marks.push_back({.name = name, .phase = phase});
  }
  for (const std::uint64_t which : {1U, 3U, 4U, 3U, 4U, 2U, 1U, 5U, 6U, 2U})
    build.push({.kind = EventKind::mark, .origin = origin, .value = which});
  for (std::size_t i = 0; i < 10; ++i) memreel::testing::set_time(build.trace().events, i, Nanoseconds{100 * i});
  const auto document = open(memory_file(written(build.trace()))).versions.back();
  EXPECT_EQ(document->columns.span_depths, 2U);
  const auto titles = [&](std::uint32_t first, std::uint32_t depths) {
    std::vector<std::string> all;
    for (const MarkBand& band : mark_bands(
             *document, first, document->event_count(),
             [](Nanoseconds time) { return static_cast<double>(time.count()); },
             [](double x) { return Nanoseconds{static_cast<std::int64_t>(x)}; }, {.depths = depths}))
      all.push_back(std::to_string(band.depth) + " " + title_of(*document->tables, band));
    return all;
  };
  const std::vector<std::string> all{"0 step 1", "1 forward 1", "1 forward 2", "0 step 2", "1 ProfilerStep#7"};
  EXPECT_EQ(titles(0, 4), all);
  EXPECT_EQ(titles(0, 1), (std::vector<std::string>{"0 step 1", "0 step 2"}));
  EXPECT_EQ(titles(4, 4), (std::vector<std::string>{"0 step 1", "1 forward 2", "0 step 2", "1 ProfilerStep#7"}))
      << "those that reach into the view";
}

TEST(Scale, ScreensWithFinePixelsAreLegible) {
  EXPECT_EQ(screen_scale(1, 1080, 174), 1) << "a small screen of usual width";
  EXPECT_EQ(screen_scale(1, 2160, 336), 1.5) << "4K, 27 inches";
  EXPECT_EQ(screen_scale(1, 2160, 194), 2.5) << "4K, 15 inches";
  EXPECT_EQ(screen_scale(1, 2160, 530), 1) << "4K, 43 inches";
  EXPECT_EQ(screen_scale(1, 2160, 0), 1) << "of a size that is not known";
  EXPECT_EQ(screen_scale(1.25, 2160, 336), 1.25) << "as the desktop says";
  EXPECT_EQ(screen_scale(2, 2160, 336) / pixels_per_unit(1600, 1600), 2) << "X11: coordinates are pixels";
  EXPECT_EQ(screen_scale(2, 2160, 336) / pixels_per_unit(3200, 1600), 1) << "Wayland: they are scaled already";
  EXPECT_EQ(pixels_per_unit(0, 0), 1) << "minimised";
  EXPECT_EQ(picture_scale(2160), 2);
  EXPECT_EQ(picture_scale(640), 1);
}

TEST(SitesOf, StacksThatAreCalledTheSameHaveOneColour) {
  memreel::testing::TraceBuilder build;
  const StackId first = build.stack({"empty@site-packages/torch/nn/init.py:5", "step@/home/me/train.py:42"});
  const StackId again = build.stack({"empty@site-packages/torch/nn/init.py:5", "step@/home/me/train.py:42"});
  const StackId other = build.stack({"step@/home/me/train.py:43"});
  Sites sites;
  const auto of = sites.extend(build.trace().tables);
  EXPECT_EQ((*of)[index(again)], (*of)[index(first)]);
  EXPECT_NE((*of)[index(other)], (*of)[index(first)]);
  EXPECT_EQ((*of)[0], StackId::none);
  const StackId later = build.stack({"step@/home/me/train.py:43"});
  EXPECT_EQ((*sites.extend(build.trace().tables))[index(later)], (*of)[index(other)]);
}

}  // namespace
}  // namespace memreel::viewer
