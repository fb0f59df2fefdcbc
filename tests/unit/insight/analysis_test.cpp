// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/analysis.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <utility>
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

/// 20 marked steps of a pool on GPU `pool`, which needs most in the third, and of the driver on GPU `driver`, which
/// gives most of the memory in the 15th.
class Beside : public ::testing::Test {
 protected:
  Verdict verdict_on(std::int32_t pool, std::int32_t driver, Bytes of_driver = 500_MiB) {
    testing::TraceBuilder builder;
    builder.trace().tables.marks.push_back({.name = builder.string("step")});
    const OriginId ours = builder.origin(builder.heap("pool", Level::framework, pool));
    const OriginId beneath = builder.origin(builder.heap("cuda.driver", Level::driver, driver));
    builder.event(EventKind::segment_alloc, ours, base, 100_MiB);
    builder.alloc(ours, base, 10_MiB, builder.stack({"weights@train.py:2"}));
    for (int step = 0; step < 20; ++step) {
      if (step == 2) builder.free(builder.alloc(ours, base + 20_MiB, 80_MiB, builder.stack({"once@train.py:4"})));
      if (step == 14)
        builder.free(builder.alloc(beneath, base + 10_GiB, of_driver, builder.stack({"table@train.py:6"})));
      builder.free(builder.alloc(ours, base + 12_MiB, 1_MiB, builder.stack({"step@train.py:8"})));
      builder.push({.kind = EventKind::mark, .value = builder.trace().tables.marks.size() - 1});
    }
    return Analysis(builder.trace()).first_verdict(Sections::all());
  }
  static std::string first_lines(const Verdict& verdict) {
    std::string text;
    for (const VerdictLine& line : lines_of(verdict)) text += line.topic + ": " + line.text + "\n";
    return text;
  }
};

TEST_F(Beside, TheDevicesPeakIsThatOfItsOwnStep) {
  for (const std::int32_t device : {0, 3}) {
    const Verdict verdict = verdict_on(device, device);
    ASSERT_TRUE(verdict.device);
    EXPECT_EQ(verdict.device->step, 15U);
    EXPECT_EQ(verdict.decides->step, 3U);  // of the pool's own
    const std::string lines = first_lines(verdict);
    EXPECT_NE(lines.find("600.00 MiB held on the device, step 15 of 20"), std::string::npos) << lines;
    // 80 MiB of train.py:4 are gone by then.
    EXPECT_NE(lines.find("pool (mostly weights (train.py:2)) 100.00 MiB"), std::string::npos) << lines;
  }
}

TEST_F(Beside, AGpuOnWhichOnlyTheDriverGivesMemoryCounts) {
  for (const auto& [pool, driver] : {std::pair{0, 1}, {1, 0}}) {
    const Verdict most = verdict_on(pool, driver);
    EXPECT_EQ(most.decides->device, driver);
    EXPECT_EQ(most.decides->devices, 2U);
    EXPECT_EQ(most.decides->peak_live, 500_MiB);
    ASSERT_EQ(most.others.size(), 1U);
    EXPECT_EQ(most.others.front().device, pool);
    EXPECT_EQ(most.others.front().live, 10_MiB);

    const Verdict less = verdict_on(pool, driver, 50_MiB);
    EXPECT_EQ(less.decides->device, pool);
    EXPECT_EQ(less.decides->devices, 2U);
    EXPECT_EQ(verdict_on(pool, driver, 1_MiB).decides->devices, 1U);  // not worth a line
  }
}

TEST(OlderPeak, OfAFlightRecordingIsNotExplainedByWhatCameLater) {
  testing::TraceBuilder builder;
  const HeapId heap = builder.heap("pool", Level::framework, 0);
  const OriginId pool = builder.origin(heap);
  builder.event(EventKind::segment_alloc, pool, base, 200_MiB);
  builder.alloc(pool, base, 20_MiB, builder.stack({"late@train.py:9"}));
  FoldedHistory& folded = builder.trace().folded;
  folded.interval = Nanoseconds{1'000'000'000};
  folded.rows = {{.interval = 0, .heap = heap, .allocations = 1, .allocated = 200_MiB},
                 {.interval = 1, .heap = heap, .frees = 1, .freed = 200_MiB}};
  const Verdict verdict = Analysis(builder.trace()).verdict(Sections::all());
  EXPECT_FALSE(verdict.fragmentation);
  ASSERT_TRUE(verdict.setting);
  EXPECT_EQ(verdict.setting->text, "");
  EXPECT_EQ(verdict.setting->saved, 0_B);
  EXPECT_FALSE(verdict.holders);
  EXPECT_EQ(lines_of(verdict).front().text,
            "200.00 MiB reserved, at least 200.00 MiB live before the events that are kept");
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
