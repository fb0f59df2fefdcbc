// SPDX-License-Identifier: Apache-2.0
// The panes' queries to a document, checked against the whole trace.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <set>
#include <thread>

#include "tests/bench/synthetic.h"
#include "tests/unit/formats/random_history.h"
#include "tests/unit/sample_trace.h"
#include "tests/unit/viewer/opened.h"
#include "viewer/model/allocation_list.h"
#include "viewer/model/allocation_map.h"
#include "viewer/model/axis.h"
#include "viewer/model/background.h"
#include "viewer/model/device_samples.h"
#include "viewer/model/flame.h"
#include "viewer/model/heap_at.h"
#include "viewer/model/labels.h"
#include "viewer/model/selection.h"
#include "viewer/model/stacked_series.h"
#include "viewer/model/typed_input.h"

namespace memreel::viewer {
namespace {

class Queries : public ::testing::Test {
 protected:
  Queries() : bytes_(memreel::testing::possible_trace(9, 12'000, {.events_per_block = 900})) {
    opened_ = open(memory_file(bytes_), 500);
  }
  const Document& document() const { return opened_.last(); }
  HeapId heap() const { return std::ranges::max_element(document().heaps, {}, &HeapSeries::allocations)->heap; }
  bool belongs(std::uint32_t id) const { return document().heap_of(document().origin_of(id)) == heap(); }

  std::atomic<float> share_{0};
  Progress progress_{std::stop_token(), share_};

 private:
  memreel::testing::FileBytes bytes_;
  Opened opened_;
};

TEST_F(Queries, ColumnsOfTheTimelineLeaveNoEventOut) {
  const HeapSeries& series = *document().series(heap());
  const Nanoseconds begin = document().first_time(), end = document().last_time() + Nanoseconds{1};
  const Extent all = document().extent(series, 0, document().event_count());
  for (const std::uint32_t width : {1U, 3U, 700U, 5000U}) {
    const auto columns = series_columns(document(), series, begin, end, width);
    ASSERT_EQ(columns.size(), width);
    Metrics highest{};
    std::uint32_t next = columns.front().begin;
    for (const SeriesColumn& column : columns) {
      ASSERT_EQ(column.begin, next);
      next = column.end;
      ASSERT_EQ(column.extent, column.begin == column.end ? Extent::at(document().metrics_after(series, column.end))
                                                          : document().extent(series, column.begin, column.end));
      for (std::size_t f = 0; f < metric_count; ++f) highest[f] = std::max(highest[f], column.extent.max[f]);
    }
    EXPECT_EQ(next, document().event_count());
    EXPECT_EQ(highest, all.max) << width << " columns";
  }
}

TEST_F(Queries, AColumnBetweenTwoEventsShowsTheStateThatLasts) {
  const HeapSeries& series = *document().series(heap());
  const std::uint32_t event = document().event_count() / 2;
  const Nanoseconds at = document().time(event);
  const auto columns = series_columns(document(), series, at, at + Nanoseconds{1000}, 1000);
  for (const SeriesColumn& column : columns) {
    if (column.begin != column.end) continue;
    ASSERT_EQ(column.extent, Extent::at(document().metrics_after(series, column.end)));
  }
}

TEST_F(Queries, ListsAreTheAllocationsOfTheRangeInTheOrderAskedFor) {
  const std::uint32_t first = document().event_count() / 3, end = document().event_count() * 2 / 3;
  std::set<std::uint32_t> expected;
  for (std::uint32_t id = 0; id < document().allocation_count(); ++id)
    if (belongs(id) && document().begin_of(id) < end && document().completed(id) >= first) expected.insert(id);
  for (const AllocationOrder order : {AllocationOrder::begin, AllocationOrder::size, AllocationOrder::lifetime,
                                      AllocationOrder::address, AllocationOrder::stack})
    for (const bool descending : {false, true}) {
      const auto list = list_allocations(
          document(),
          {.heap = heap(), .first_event = first, .end_event = end, .order = order, .descending = descending},
          progress_);
      ASSERT_TRUE(list);
      std::set<std::uint32_t> listed;
      for (std::uint32_t row = 0; row < list->size(); ++row) listed.insert((*list)[row]);
      ASSERT_EQ(listed, expected);
      for (std::uint32_t row = 1; row < list->size(); ++row) {
        const std::uint32_t a = (*list)[row - 1], b = (*list)[row];
        if (order == AllocationOrder::size) {
          ASSERT_TRUE(descending ? document().size_of(a) >= document().size_of(b)
                                 : document().size_of(a) <= document().size_of(b));
        }
        if (order == AllocationOrder::begin) {
          ASSERT_EQ(descending, a > b);
        }
      }
      ASSERT_EQ(list->row_of((*list)[list->size() / 2]), list->size() / 2);
    }
}

TEST_F(Queries, SearchFindsFramesInAnyCase) {
  const Tables& tables = *document().tables;
  const auto some = std::ranges::find_if(tables.frames, [](const Frame& f) { return f.function != StringId::none; });
  ASSERT_NE(some, tables.frames.end());
  std::string name = tables[some->function];
  std::ranges::transform(name, name.begin(), [](char c) { return static_cast<char>(std::toupper(c)); });
  const std::vector<bool> found = stacks_with(tables, name);
  EXPECT_GT(std::ranges::count(found, true), 0);
  EXPECT_EQ(std::ranges::count(stacks_with(tables, "no such frame anywhere"), true), 0);
}

TEST(Weights, AndTheFlameGraphOfThemAddUp) {
  const std::vector<std::byte> bytes = written(synthetic_trace({.events = 5000, .live = 300, .stacks = 40}));
  const Opened opened = open(memory_file(bytes));
  const Document& document = opened.last();
  const std::uint32_t at = document.event_count() / 2;
  std::atomic<float> share{0};
  const Progress progress(std::stop_token(), share);
  const auto weights = weigh_stacks(document, {.heap = HeapId{1}, .end_event = at}, progress);
  ASSERT_TRUE(weights);
  std::uint64_t total = 0;
  for (const StackWeight& weight : *weights) total += weight.bytes;
  const HeapAt state = heap_at(document, HeapId{1}, at);
  EXPECT_EQ(total, (state.live + state.pending).count);
  EXPECT_TRUE(std::ranges::is_sorted(*weights, std::ranges::greater{}, &StackWeight::bytes));

  const auto flame = flame_graph(*document.tables, *weights);
  ASSERT_FALSE(flame.empty());
  EXPECT_EQ(flame.front().bytes, total);
  for (std::size_t n = 1; n < flame.size(); ++n) {
    const FlameNode& node = flame[n];
    const FlameNode& parent = flame[node.parent];
    ASSERT_EQ(node.depth, parent.depth + 1);
    ASSERT_GE(node.begin, parent.begin - 1e-9);
    ASSERT_LE(node.end, parent.end + 1e-9);
  }
}

TEST_F(Queries, AllocatedInARangeIsWhatBeganThere) {
  const std::uint32_t first = 1000, end = 5000;
  std::map<StackId, std::uint64_t> expected;
  for (std::uint32_t id = 0; id < document().allocation_count(); ++id) {
    const std::uint32_t begin = document().begin_of(id);
    if (begin >= first && begin < end && belongs(id)) ++expected[document().stack_of(id)];
  }
  const auto weights = weigh_stacks(
      document(), {.weighing = Weighing::allocated, .heap = heap(), .first_event = first, .end_event = end}, progress_);
  ASSERT_TRUE(weights);
  std::map<StackId, std::uint64_t> counted;
  for (const StackWeight& weight : *weights) counted[weight.stack] = weight.count;
  EXPECT_EQ(counted, expected);
}

TEST_F(Queries, StackedSeriesAddsUpToTheLiveBytes) {
  for (const SplitBy by :
       {SplitBy::stack, SplitBy::pool, SplitBy::stream, SplitBy::thread, SplitBy::tag, SplitBy::step}) {
    const auto series = split_series(document(), {.heap = heap(), .by = by}, progress_);
    ASSERT_TRUE(series);
    ASSERT_EQ(series->stride, 1U);
    const HeapSeries& whole = *document().series(heap());
    for (std::uint32_t e = 0; e < document().event_count(); e += 97) {
      std::uint64_t total = 0;
      for (const auto& group : series->groups) total += group.bytes[e];
      const Extent around = document().extent(whole, e == 0 ? 0 : e - 1, e + 1);
      // An interval shows the highest total since the end of the previous one, including its initial state.
      ASSERT_EQ(total, value_of(around.max, Metric::live)) << e;
    }
  }
}

/// What each group of a split holds at the end, by name.
std::map<std::string, std::uint64_t> held_by(const Document& document, SplitBy by) {
  std::atomic<float> share{0};
  const auto series = split_series(document, {.heap = HeapId{1}, .by = by}, Progress(std::stop_token(), share));
  std::map<std::string, std::uint64_t> held;
  if (series)
    for (const auto& group : series->groups) held[group.label] = group.bytes.back();
  return held;
}

TEST(Split, TagsAreInnermostRangesAndStepsTheMainLoop) {
  memreel::testing::TraceBuilder builder;
  const OriginId origin = builder.origin(HeapId{1});
  // Each row of a table once, as the writer has it.
  std::map<std::string_view, StringId> names;
  std::map<std::pair<std::string_view, MarkPhase>, std::uint64_t> marks;
  const auto mark = [&](std::string_view name, MarkPhase phase) {
    if (!names.contains(name)) names[name] = builder.string(name);
    const auto [row, is_new] = marks.try_emplace({name, phase}, builder.trace().tables.marks.size());
    if (is_new) builder.trace().tables.marks.push_back({.name = names[name], .phase = phase});
    builder.push({.kind = EventKind::mark, .origin = origin, .value = row->second});
  };
  std::uint64_t next = 0x1000;
  const auto alloc = [&](std::uint64_t bytes) {
    next += 0x1000;
    return builder.alloc(origin, {next}, {bytes});
  };
  alloc(1);
  mark("forward", MarkPhase::begin);
  alloc(2);
  mark("attention", MarkPhase::begin);
  alloc(4);
  mark("attention", MarkPhase::end);
  const AllocationId freed = alloc(8);
  mark("forward", MarkPhase::end);
  mark("step", MarkPhase::instant);
  alloc(16);
  builder.free(freed);
  mark("forward", MarkPhase::begin);
  alloc(32);
  mark("forward", MarkPhase::end);
  mark("step", MarkPhase::instant);
  alloc(64);
  const Opened opened = open(memory_file(written(builder.trace())));
  using Held = std::map<std::string, std::uint64_t>;
  EXPECT_EQ(held_by(opened.last(), SplitBy::tag),
            (Held{{"untagged", 1 + 16 + 64}, {"forward", 2 + 32}, {"attention", 4}}));
  EXPECT_EQ(held_by(opened.last(), SplitBy::step), (Held{{"step 1", 1 + 2 + 4}, {"step 2", 16 + 32}, {"step 3", 64}}));
}

TEST(Device, WhatAPoolSaysOfItselfIsNothingThatTheDeviceSays) {
  memreel::testing::TraceBuilder builder;  // heap 1: a framework's
  const HeapId framework{1}, driver = builder.heap("cuda.driver", Level::driver, 0);
  Tables& tables = builder.trace().tables;
  const auto pool_of = [&](std::string_view name) {
    tables.pools.push_back({.name = builder.string(name)});
    return PoolId{static_cast<std::uint32_t>(tables.pools.size() - 1)};
  };
  const OriginId pool = builder.origin(framework, 0, pool_of("nodes")),
                 part = builder.origin(driver, 0, pool_of("arrays"));
  const auto sample = [&](OriginId origin, std::uint64_t used, std::uint64_t free) {
    builder.push({.kind = EventKind::memory_info, .origin = origin, .size = {used}, .value = free});
  };
  builder.alloc(builder.origin(framework), {0x20'0000}, {200});
  sample(pool, 100, 34);
  sample(part, 50, 7);  // all that is known of the driver's heap
  {
    const Opened opened = open(memory_file(written(builder.trace())));
    for (const HeapId heap : {framework, driver}) {
      EXPECT_EQ(sampled_series(opened.last(), heap), nullptr) << "nobody asked the device";
      EXPECT_EQ(unattributed(opened.last(), heap, opened.last().event_count()), std::nullopt);
    }
  }
  sample(builder.origin(driver), 1000, 9000);
  sample(pool, 100, 34);
  const Opened opened = open(memory_file(written(builder.trace())));
  const Document& document = opened.last();
  ASSERT_NE(sampled_series(document, framework), nullptr);
  EXPECT_EQ(sampled_series(document, framework)->heap, driver);
  EXPECT_EQ(sample_before(document, *sampled_series(document, framework), document.event_count())->free, 9000_B)
      << "the device's, not that of the pool which spoke later";
  EXPECT_EQ(unattributed(document, framework, document.event_count()), 1000_B);
}

TEST(Device, WhatNoHeapAccountsForIsWhatItsDriverSaysIsUsedBesides) {
  memreel::testing::TraceBuilder builder;  // heap 1: a framework's
  const HeapId driver = builder.heap("cuda.driver", Level::driver, 0);
  const OriginId framework_origin = builder.origin(HeapId{1}), driver_origin = builder.origin(driver);
  const auto sample = [&](std::uint64_t used, std::uint64_t free) {
    builder.push({.kind = EventKind::memory_info, .origin = driver_origin, .size = {used}, .value = free});
  };
  builder.alloc(driver_origin, {0x10'0000}, {300});  // event 0
  sample(1000, 9000);
  builder.event(EventKind::segment_alloc, framework_origin, {0x20'0000}, {500});
  const AllocationId block = builder.alloc(framework_origin, {0x20'0000}, {200});
  sample(1600, 8400);
  builder.free(block);
  sample(700, 9300);  // less than recorded: another clock, or shared memory
  const Opened opened = open(memory_file(written(builder.trace())));
  const Document& document = opened.last();
  for (const HeapId heap : {HeapId{1}, driver}) {
    EXPECT_EQ(unattributed(document, heap, 1), std::nullopt) << "before the first sample";
    EXPECT_EQ(unattributed(document, heap, 2), 700_B);
    EXPECT_EQ(unattributed(document, heap, 4), 700_B) << "as of the sample, whatever happened since";
    EXPECT_EQ(unattributed(document, heap, 5), 800_B);
    EXPECT_EQ(unattributed(document, heap, document.event_count()), 0_B);
  }

  // Every sample is in one column: the extremes of all columns are those of the samples, at any width.
  ASSERT_NE(sampled_series(document, HeapId{1}), nullptr);
  const HeapSeries& series = *sampled_series(document, HeapId{1});
  EXPECT_EQ(series.heap, driver);
  const Nanoseconds begin = document.first_time(), end = document.last_time() + Nanoseconds{1};
  for (const std::uint32_t width : {1U, 7U, 1000U}) {
    const auto columns = free_columns(document, series, begin, end, width);
    ASSERT_EQ(columns.size(), width);
    std::uint64_t least = 1U << 30U, most = 0;
    for (const FreeColumn& column : columns) {
      if (!column.known) continue;
      least = std::min(least, column.least);
      most = std::max(most, column.most);
    }
    EXPECT_EQ(least, 8400U) << width;
    EXPECT_EQ(most, 9300U) << width;
    EXPECT_EQ(columns.front().known, width == 1) << "not known before the first sample";
    EXPECT_EQ(columns.back().most, 9300U) << width;
  }
  const auto later = free_columns(document, series, document.time(3), document.time(3) + Nanoseconds{1}, 2);
  EXPECT_EQ(later.front(), (FreeColumn{.least = 9000, .most = 9000, .known = true})) << "what was said last";

  // Reserved but not held, in millionths.
  EXPECT_EQ(value_of(document.metrics_after(*document.series(HeapId{1}), 4), Metric::fragmentation), 600'000U);
}

TEST(Map, ShowsEachAllocationAsItsRectangle) {
  const Trace trace = synthetic_trace({.events = 3000, .live = 40, .stacks = 8, .seed = 3});
  const std::vector<std::byte> bytes = written(trace);
  const Opened opened = open(memory_file(bytes));
  const Document& document = opened.last();
  std::atomic<float> share{0};
  const Progress progress(std::stop_token(), share);
  const MapQuery query{.heap = HeapId{1},
                       .begin = document.first_time(),
                       .end = document.last_time() + Nanoseconds{1},
                       .width = 3000,
                       .height = 2000};
  const auto picture = draw_map(
      document, query, [](std::uint32_t id) { return 0xFF00'0000U + id + 1; }, 0xFF00'0000U, progress);
  ASSERT_TRUE(picture);
  EXPECT_EQ(picture->drawn, document.allocation_count());
  // The center of a large enough rectangle has its color, and a query for the same place agrees.
  std::uint32_t looked_at = 0;
  const auto span = static_cast<double>((query.end - query.begin).count());
  for (std::uint32_t id = 0; id < document.allocation_count(); ++id) {
    const Allocation a = document.allocation(id);
    if (a.completed == never) continue;
    const Nanoseconds from = document.time(a.begin), to = document.time(a.completed);
    const double left = static_cast<double>((from - query.begin).count()) / span * query.width;
    const double right = static_cast<double>((to - query.begin).count()) / span * query.width;
    const auto offset = picture->scale.offset_of(a.address);
    ASSERT_TRUE(offset);
    const double per_pixel = static_cast<double>(picture->scale.total()) / query.height;
    if (right - left < 6 || static_cast<double>(a.size.count) < 6 * per_pixel) continue;
    const auto x = static_cast<std::uint32_t>((left + right) / 2);
    const auto y = static_cast<std::uint32_t>(
        query.height - (static_cast<double>(*offset) + static_cast<double>(a.size.count) / 2) / per_pixel);
    ASSERT_EQ(picture->pixels[std::size_t{y} * query.width + x], 0xFF00'0000U + id + 1);
    ASSERT_EQ(allocation_at(document, HeapId{1}, from + (to - from) / 2, a.address + Bytes{a.size.count / 2}), id);
    ++looked_at;
  }
  EXPECT_GT(looked_at, 50U);
}

TEST(AddressScaleOf, LeavesOutWhatTheHeapNeverHad) {
  const std::vector<std::byte> bytes = written(synthetic_trace({.events = 2000, .live = 30}));
  const Opened opened = open(memory_file(bytes));
  const AddressScale scale(opened.last(), HeapId{1}, 0, opened.last().event_count());
  const HeapSeries& series = *opened.last().series(HeapId{1});
  EXPECT_EQ(scale.total(), series.peak_reserved) << "segments are never given back, so all of them are on the scale";
  for (std::uint64_t offset = 0; offset < scale.total(); offset += 1'234'567) {
    const auto address = scale.address_at(offset);
    ASSERT_TRUE(address);
    EXPECT_EQ(scale.offset_of(*address), offset);
  }
  EXPECT_FALSE(scale.address_at(scale.total()));
  EXPECT_FALSE(scale.offset_of(Address{4096}));
}

TEST(Background, KeepsTheLastCompleteValueUntilTheNextIsThere) {
  Background<int, int> background;
  std::atomic<bool> go{true};
  const auto work = [&](int value) {
    return [value, &go](const Progress& progress) -> std::optional<int> {
      while (!go)
        if (progress.cancelled()) return std::nullopt;
      return value;
    };
  };
  const auto wait = [&] {
    while (background.value(), background.running()) std::this_thread::yield();
  };
  EXPECT_EQ(background.value(), nullptr);
  background.request(1, work(10));
  wait();
  ASSERT_TRUE(background.value());
  EXPECT_EQ(*background.value(), 10);

  go = false;
  background.request(2, work(20));
  EXPECT_EQ(*background.value(), 10);
  EXPECT_FALSE(background.is_current());
  background.request(3, work(30));  // cancels 2
  go = true;
  wait();
  EXPECT_EQ(*background.value(), 30);
  EXPECT_TRUE(background.is_current());

  // A query that is not cancelled is shown even if something else is wanted by now.
  background.request(4, work(40), false);
  background.request(5, work(50), false);
  wait();
  EXPECT_EQ(*background.value(), 50);
}

TEST(Background, AValueIsNotCurrentBeforeItWasTaken) {
  Background<int, int> background;
  background.request(1, [](const Progress&) { return std::optional(10); });
  std::this_thread::sleep_for(std::chrono::milliseconds{20});  // whether or not it is done by then
  EXPECT_TRUE(background.running()) << "who showed nothing must be told to come again";
  EXPECT_FALSE(background.is_current());
  while (!background.value()) std::this_thread::yield();
  EXPECT_FALSE(background.running());
  EXPECT_TRUE(background.is_current());
}

TEST(Background, WhatIsGivenUpIsNotComputedAgainUntilItIsWanted) {
  Background<int, int> background;
  std::atomic<int> begun{0};
  std::atomic<bool> go{true};
  const auto ask = [&](int key) {
    background.request(key, [key, &begun, &go](const Progress& progress) -> std::optional<int> {
      ++begun;
      while (!go)
        if (progress.cancelled()) return std::nullopt;
      return 10 * key;
    });
  };
  const auto wait = [&] {
    while (background.value(), background.running()) std::this_thread::yield();
  };
  ask(1);
  wait();
  go = false;
  ask(2);
  background.give_up();
  wait();
  EXPECT_TRUE(background.given_up());
  EXPECT_TRUE(background.is_current()) << "nobody waits for it";
  EXPECT_EQ(*background.value(), 10) << "the last complete value stays";
  go = true;
  ask(2);  // as every frame does
  wait();
  EXPECT_EQ(begun, 2);
  EXPECT_EQ(*background.value(), 10);

  background.retry();
  ask(2);
  wait();
  EXPECT_EQ(*background.value(), 20);
  EXPECT_FALSE(background.given_up());

  // A query that was given up blocks nothing else.
  go = false;
  ask(3);
  background.give_up();
  go = true;
  ask(4);
  wait();
  EXPECT_EQ(*background.value(), 40);
  EXPECT_TRUE(background.is_current());
}

TEST(SelectionOf, ZoomKeepsTheAnchorAndHistoryGoesBack) {
  const auto bytes = memreel::testing::possible_trace(2, 3'000, {});
  const Opened opened = open(memory_file(bytes));
  const Document& document = opened.last();
  Selection selection;
  selection.look_at_all(document);
  selection.remember();
  const TimeRange all = selection.view;
  EXPECT_EQ(all.begin, document.first_time());
  EXPECT_GT(all.end, document.last_time());
  const Nanoseconds anchor = all.begin + all.length() / 4;
  selection.zoom(document, 0.1, anchor);
  EXPECT_LT(selection.view.length(), all.length() / 9);
  EXPECT_NEAR(static_cast<double>((anchor - selection.view.begin).count()),
              static_cast<double>(selection.view.length().count()) / 4,
              static_cast<double>(selection.view.length().count()) / 100);
  selection.zoom(document, 1e9, anchor);
  EXPECT_EQ(selection.view, all);
  selection.pan(document, -5);
  EXPECT_EQ(selection.view, all) << "not beyond the trace";
  selection.zoom(document, 0.01, anchor);
  selection.remember();
  EXPECT_TRUE(selection.go_back());
  EXPECT_EQ(selection.view, all);
  EXPECT_TRUE(selection.go_forward());
  EXPECT_NE(selection.view, all);
}

TEST(Labels, AreWhatPeopleSay) {
  EXPECT_EQ(time_text(Nanoseconds{0}, Nanoseconds{1}), "0 s");
  EXPECT_EQ(time_text(Nanoseconds{1'250'000'000}, Nanoseconds{10'000'000}), "1.25 s");
  EXPECT_EQ(time_text(Nanoseconds{1'500}, Nanoseconds{100}), "1500 ns");
  EXPECT_EQ(time_text(Nanoseconds{42'000'000}, Nanoseconds{1'000'000}), "42 ms");
  using namespace std::chrono_literals;
  EXPECT_EQ(time_text(90s, 30s), "90 s");
  EXPECT_EQ(time_text(125s, 1s), "2:05 min");
  EXPECT_EQ(time_text(125'250ms, 10ms), "2:05.25 min");
  EXPECT_EQ(time_text(-125s, 1s), "-2:05 min");
  EXPECT_EQ(time_text(3'599'999ms, 1s), "1:00:00 h") << "rounded before it is taken apart";
  EXPECT_EQ(time_text(3h + 7min + 30s, 1s), "3:07:30 h");
  EXPECT_EQ(time_text(3h + 7min, 60s), "3:07 h");
  EXPECT_EQ(time_text(40min, 600s), "40 min");
  EXPECT_EQ(time_text(102h + 5min, 1h), "4 d 6:05 h");
  EXPECT_EQ(time_text(96h, 24h), "4 d");
  EXPECT_EQ(address_text(Address{0x7f0000001200}), "0x7f0000001200");
  EXPECT_EQ(stack_label(Tables(), StackId::none), "(no stack)");
  memreel::testing::TraceBuilder build;
  const std::vector<std::string_view> block{"linear@site-packages/torch/nn/functional.py:9",
                                            "forward@site-packages/torch/nn/modules/linear.py:134",
                                            "_call_impl@site-packages/torch/nn/modules/module.py:1790",
                                            "forward@site-packages/transformers/modeling_gpt2.py:240",
                                            "_call_impl@site-packages/torch/nn/modules/module.py:1790",
                                            "step@/home/me/train.py:42"};
  EXPECT_EQ(stack_label(build.trace().tables, build.stack(block)),
            "modeling_gpt2.py:240  forward > functional.py:9  \u2190 train.py:42");
  EXPECT_EQ(stack_label(build.trace().tables, build.stack({block.back()})), "train.py:42  step");
  EXPECT_EQ(stack_label(build.trace().tables, build.stack({block.front()})), "functional.py:9  linear");
  Tables tables;
  tables.pools.push_back({.key_low = 1, .inferred = true});
  EXPECT_EQ(split_label(tables, 1, SplitBy::pool), "(0, 1) inferred") << "as every report calls it";
}

}  // namespace
}  // namespace memreel::viewer
