// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/analysis.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "tests/unit/analyzer/history.h"

namespace memreel {
namespace {

using testing::base;

/// Two segments, each with a block in the middle, and a request that fits in neither gap: the last of the recording.
class Failing : public ::testing::Test {
 protected:
  Failing() {
    const OriginId origin = builder_.origin(HeapId{1});
    builder_.event(EventKind::segment_alloc, origin, base, 20_MiB);
    builder_.alloc(origin, base + 9_MiB, 2_MiB, builder_.stack({"keep@train.py:7"}));
    builder_.event(EventKind::segment_alloc, origin, base + 64_MiB, 20_MiB);
    builder_.alloc(origin, base + 74_MiB, 2_MiB, builder_.stack({"keep@train.py:7"}));
    builder_.event(EventKind::alloc_failed, origin, {}, 15_MiB, builder_.stack({"step@train.py:9"}));
  }

  testing::TraceBuilder builder_;
};

TEST_F(Failing, WhyIsKnownBeforeAnyReplay) {
  std::atomic<int> replays = 0;  // any thread counts
  const Analysis analysis(builder_.trace(), {.on_replay = [&](std::uint64_t, std::uint64_t) { ++replays; }});
  const Verdict first = analysis.first_verdict(Sections::all());
  EXPECT_EQ(replays, 0);
  ASSERT_TRUE(first.decides);
  EXPECT_EQ(first.decides->reason, "fragmentation");
  EXPECT_FALSE(first.setting);

  const Verdict whole = analysis.verdict(Sections::all());
  EXPECT_GT(replays, 0);
  EXPECT_TRUE(whole.setting);
  EXPECT_EQ(whole.decides->reason, first.decides->reason);
  EXPECT_EQ(whole.holders->total, first.holders->total);
}

TEST_F(Failing, EachResultIsComputedOnce) {
  const Analysis analysis(builder_.trace());
  std::vector<const Remedies*> remedies(4);
  std::vector<const LeakReport*> leaks(4);
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < remedies.size(); ++i)
      threads.emplace_back([&, i] {
        remedies[i] = &analysis.remedies();
        leaks[i] = &analysis.leaks();
      });
  }
  for (const Remedies* each : remedies) EXPECT_EQ(each, remedies.front());
  for (const LeakReport* each : leaks) EXPECT_EQ(each, leaks.front());
  EXPECT_FALSE(remedies.front()->tried.empty());
}

TEST(Steps, AreTheOnesFoundForEachHeapAlone) {
  for (const RoundSource source : {RoundSource::marks, RoundSource::repetition}) {
    testing::TraceBuilder builder;
    Tables& tables = builder.trace().tables;
    tables.marks.push_back({.name = builder.string("step"), .phase = MarkPhase::instant});
    const StackId work = builder.stack({"work@loop.cpp:3", "main@loop.cpp:9"});
    const StackId more = builder.stack({"more@loop.cpp:5", "main@loop.cpp:10"});
    const std::vector<OriginId> origins{builder.origin(HeapId{1}),
                                        builder.origin(builder.heap("pool", Level::framework, 0))};
    for (int step = 0; step < 8; ++step) {
      for (const OriginId origin : origins)
        for (const StackId stack : {work, more}) builder.free(builder.alloc(origin, base, 2_MiB, stack));
      if (source == RoundSource::marks)
        builder.push({.kind = EventKind::mark, .origin = origins.front(), .value = tables.marks.size() - 1});
    }
    const Trace& trace = builder.trace();
    const Activity activity = find_activity(trace);
    const RoundsOfDevices unmarked = unmarked_rounds(trace, activity, private_pools(trace, activity));
    const Analysis analysis(trace);
    for (const HeapId heap : {HeapId{1}, HeapId{2}}) {
      const Rounds asked = analysis.rounds(heap);
      const Rounds found = find_rounds(trace, heap, [&]() -> const RoundsOfDevices& { return unmarked; });
      EXPECT_EQ(asked.source, source);
      EXPECT_EQ(asked.source, found.source);
      EXPECT_EQ(asked.ends, found.ends);
    }
  }
}

TEST_F(Failing, PartsThatNobodyAsksForAreEmpty) {
  Analysis analysis(builder_.trace());
  analysis.leaks();
  const Analysis::Results results = std::move(analysis).take();
  EXPECT_FALSE(results.leaks.heaps.empty());
  EXPECT_TRUE(results.remedies.heaps.empty());
  EXPECT_EQ(results.ooms.count, 0U);
}

}  // namespace
}  // namespace memreel
