// SPDX-License-Identifier: Apache-2.0
// The viewer's sizes beyond the requested bytes equal those of the analyzer's heap map.
#include "viewer/model/heap_at.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stop_token>
#include <vector>

#include "analyzer/analysis/insight/heap_map.h"
#include "formats/import/import.h"
#include "tests/histories.h"
#include "tests/unit/analyzer/history.h"
#include "tests/unit/viewer/opened.h"

namespace memreel::viewer {
namespace {

std::optional<Rounding> found_in(const Document& document) {
  std::atomic<float> share{0};
  return find_rounding(document, Progress({}, share));
}

class RoundingOf : public ::testing::TestWithParam<test::History> {};

TEST_P(RoundingOf, AHeapIsThatOfItsMap) {
  const auto file = open_trace(GetParam().file);
  ASSERT_TRUE(file) << file.error().message();
  const Opened opened = open(*file);
  const Document& document = opened.last();
  ASSERT_TRUE(has_known_rounding(document));
  const auto rounding = found_in(document);
  ASSERT_TRUE(rounding);
  const RecordedBlocks blocks = recorded_blocks(opened.trace);
  std::vector<std::uint64_t> instants;
  constexpr std::uint64_t count = 40;
  for (std::uint64_t i = 0; i <= count; ++i) instants.push_back(i * document.event_count() / count);
  Bytes most;
  for_each_snapshot(opened.trace, instants, [&](const HeapSnapshot& snapshot) {
    for (const HeapId heap : rounding->heaps) {
      const HeapMap map = heap_map(opened.trace.tables, snapshot, heap, blocks);
      const HeapAt state = heap_at(document, heap, static_cast<std::uint32_t>(map.events), &*rounding);
      ASSERT_TRUE(state.rounding);
      ASSERT_EQ(state.live + state.pending + *state.rounding, map.live + map.pending + map.outside) << map.events;
      ASSERT_EQ(state.largest_gap ? state.segments[*state.largest_gap].largest_gap_size : 0_B, map.largest_free());
      Bytes of_segments;
      for (const HeldSegment& segment : state.segments) of_segments += segment.rounding;
      ASSERT_EQ(of_segments, *state.rounding);
      most = std::max(most, *state.rounding);

      // Without it, blocks take the requested bytes, and nothing is shown.
      const HeapAt plain = heap_at(document, heap, static_cast<std::uint32_t>(map.events));
      ASSERT_FALSE(plain.rounding);
      ASSERT_EQ(plain.live, state.live);
    }
  });
  EXPECT_GT(most, 0_B);
}

std::vector<test::History> torch_histories() {
  std::vector<test::History> some;
  for (const char* name : {"gpt_default", "gpt_expandable", "streams_default", "graphs_default", "oom_default", "leak"})
    if (const auto file = test::history(name)) some.push_back({name, *file});
  return some;
}

INSTANTIATE_TEST_SUITE_P(Recorded, RoundingOf, ::testing::ValuesIn(torch_histories()),
                         [](const auto& history) { return history.param.name; });

TEST(Rounding, OfOtherAllocatorsIsNotKnown) {
  testing::TraceBuilder build;
  const HeapId rmm = build.heap("rmm", Level::framework, 0);
  build.alloc(build.origin(rmm), {0x1000000}, 3_B);
  const Opened opened = open(memory_file(written(build.trace())));
  EXPECT_FALSE(has_known_rounding(opened.last()));
  const auto rounding = found_in(opened.last());
  ASSERT_TRUE(rounding);
  EXPECT_FALSE(heap_at(opened.last(), rmm, 1, &*rounding).rounding);
}

TEST(Rounding, OfAllocationsThatBeganLaterIsNotKnownYet) {
  testing::TraceBuilder build;
  const HeapId torch{1};
  const OriginId origin = build.origin(torch);
  build.event(EventKind::segment_alloc, origin, {0x1000000}, 2_MiB);
  build.alloc(origin, {0x1000000}, 100_B);
  const Opened shorter = open(memory_file(written(build.trace())));
  const auto rounding = found_in(shorter.last());
  build.alloc(origin, {0x1000200}, 100_B);
  const Opened longer = open(memory_file(written(build.trace())));
  EXPECT_EQ(heap_at(longer.last(), torch, 2, &*rounding).rounding, 412_B) << "512 bytes are the least";
  EXPECT_FALSE(heap_at(longer.last(), torch, 3, &*rounding).rounding);
}

}  // namespace
}  // namespace memreel::viewer
