// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/insight/out_of_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analyzer/replay/recorded_device.h"
#include "formats/import/import.h"
#include "tests/histories.h"
#include "tests/unit/analyzer/history.h"

namespace memreel {
namespace {

using ::testing::HasSubstr;

using testing::base;

struct Judged {
  Remedies remedies;
  OutOfMemories ooms;
};

Judged judge_with_remedies(const Trace& trace, std::optional<Bytes> capacity = {}) {
  Judged judged{.remedies = untried_remedies(trace, capacity), .ooms = {}};
  const Activity activity = find_activity(trace);
  judged.ooms = judge_failures(
      trace, recorded_blocks(trace), judged.remedies, [&]() -> const Activity& { return activity; }, capacity);
  replay_remedies(trace, heap_histories(trace), judged.remedies);
  find_survivors(trace, judged.remedies, judged.ooms);
  return judged;
}

OutOfMemories judge(const Trace& trace) { return judge_with_remedies(trace).ooms; }

/// Two segments of 20 MiB, each with a block in the middle, and a request that fits in neither gap.
class Gaps : public ::testing::Test {
 protected:
  Gaps() {
    builder_.event(EventKind::segment_alloc, origin_, base, 20_MiB);
    builder_.alloc(origin_, base + 9_MiB, 2_MiB);
    builder_.event(EventKind::segment_alloc, other_, base + 64_MiB, 20_MiB);
    builder_.alloc(other_, base + 64_MiB, 4_MiB);
  }

  OutOfMemory fail(Bytes size, Bytes device_free = {}) {
    builder_.push({.kind = EventKind::alloc_failed, .origin = origin_, .size = size, .value = device_free.count});
    return judge(builder_.trace()).examined.at(0);
  }

  testing::TraceBuilder builder_;
  OriginId origin_ = builder_.origin(HeapId{1}), other_ = builder_.origin(HeapId{1}, 0x77);
};

TEST_F(Gaps, IsFragmentationWhenTheRequestWouldFitIfPlacedWell) {
  const OutOfMemory oom = fail(15_MiB);
  EXPECT_EQ(oom.verdict, OomVerdict::fragmentation);
  EXPECT_EQ(oom.live, 6_MiB);
  EXPECT_EQ(oom.reserved, 40_MiB);
  EXPECT_EQ(oom.free, 34_MiB);
  EXPECT_EQ(oom.gaps, 3U);
  EXPECT_EQ(oom.needed, 16_MiB);
  EXPECT_EQ(oom.free_in_pool_stream, 18_MiB);
  EXPECT_EQ(oom.largest_in_pool_stream, 9_MiB);
  EXPECT_EQ(oom.largest_free, 16_MiB);
  EXPECT_EQ(oom.stranded.other_streams, 16_MiB);
  EXPECT_EQ(oom.fragmentation_index, 0);  // below 0: a few gaps, large together
  ASSERT_TRUE(oom.gap_in_pool_stream);
  EXPECT_EQ(oom.gap_in_pool_stream->segment.address, base);
  ASSERT_TRUE(oom.largest_gap);
  EXPECT_EQ(oom.largest_gap->segment.address, base + 64_MiB);
  EXPECT_THAT(explanation(oom), HasSubstr("Fragmentation: 6.00 MiB live and 15.00 MiB requested"));
  EXPECT_THAT(explanation(oom), HasSubstr("16.00 MiB is free in blocks large enough, but on other streams"));
}

TEST_F(Gaps, IsLackOfMemoryWhenNoPlacementWouldDo) {
  const OutOfMemory oom = fail(50_MiB);
  EXPECT_EQ(*oom.capacity, 90_MiB - 1_B);  // 40 were reserved and a segment of 50 did not fit
  EXPECT_EQ(oom.verdict, OomVerdict::fragmentation);
  // An earlier refusal shows that less was available.
  testing::TraceBuilder builder;
  const OriginId origin = builder.origin(HeapId{1});
  builder.event(EventKind::segment_alloc, origin, base, 20_MiB);
  builder.alloc(origin, base, 20_MiB);
  builder.event(EventKind::alloc_failed, origin, {}, 10_MiB);
  builder.event(EventKind::alloc_failed, origin, {}, 100_MiB);
  const OutOfMemories ooms = judge(builder.trace());
  EXPECT_EQ(ooms.examined.at(1).verdict, OomVerdict::lack_of_memory);
  EXPECT_TRUE(ooms.examined.at(1).survivors.empty());
}

TEST_F(Gaps, ALimitOfTheProgramIsToldFromAFullDevice) {
  EXPECT_TRUE(fail(15_MiB, 80_GiB).own_limit());
  EXPECT_THAT(explanation(fail(15_MiB, 80_GiB)), HasSubstr("a limit that the program set"));
}

TEST(OutOfMemory, FullDeviceIsNoLimitOfTheProgram) {
  OutOfMemory oom{.requested = 15_MiB, .needed = 16_MiB, .device_free = 3_MiB};
  EXPECT_FALSE(oom.own_limit());
  oom.device_free.reset();
  EXPECT_FALSE(oom.own_limit());
}

TEST(OutOfMemory, WithoutSegmentsAndCapacityNothingIsClaimed) {
  testing::TraceBuilder builder;
  const OriginId origin = builder.origin(builder.heap("rmm", Level::framework, 0));
  builder.alloc(origin, base, 1_MiB);
  builder.event(EventKind::alloc_failed, origin, {}, 4_MiB);
  const OutOfMemory oom = judge(builder.trace()).examined.at(0);
  EXPECT_EQ(oom.verdict, OomVerdict::unknown);
  EXPECT_EQ(oom.live, 1_MiB);
  EXPECT_TRUE(oom.survivors.empty());
}

TEST(OutOfMemory, OnlyTheFirstFailuresAreExaminedAndAllAreCounted) {
  testing::TraceBuilder builder;
  const OriginId origin = builder.origin(HeapId{1});
  for (int i = 0; i < 150; ++i) builder.event(EventKind::alloc_failed, origin, {}, 4_MiB);
  const OutOfMemories ooms = judge(builder.trace());
  EXPECT_EQ(ooms.count, 150U);
  EXPECT_EQ(ooms.examined.size(), OutOfMemories::most_examined);
}

/// A recording of both levels: a pool on a device whose driver was recorded too.
class BothLevels : public ::testing::Test {
 protected:
  BothLevels() { builder_.trace().tables.heaps[1].parent = driver_; }

  void sample(Bytes used, Bytes free) {
    builder_.push({.kind = EventKind::memory_info, .origin = below_, .size = used, .value = free.count});
  }
  void refuse(OriginId origin, Bytes size, Bytes device_free = {}) {
    builder_.push({.kind = EventKind::alloc_failed, .origin = origin, .size = size, .value = device_free.count});
  }
  OutOfMemories judged() { return judge(builder_.trace()); }

  testing::TraceBuilder builder_;
  HeapId driver_ = builder_.heap("cuda.driver", Level::driver, 0);
  OriginId below_ = builder_.origin(driver_), pool_ = builder_.origin(HeapId{1});
};

TEST_F(BothLevels, ARequestThatThePoolAndTwiceTheDriverRefuseFailsOnce) {
  sample(1_GiB, 138_GiB);
  builder_.event(EventKind::segment_alloc, pool_, base, 20_MiB);
  builder_.alloc(pool_, base, 11_MiB);
  refuse(below_, 4096_GiB);
  refuse(below_, 4096_GiB);
  refuse(pool_, 4096_GiB);
  const OutOfMemories ooms = judged();
  EXPECT_EQ(ooms.count, 1U);
  ASSERT_EQ(ooms.examined.size(), 1U);
  const OutOfMemory& oom = ooms.examined[0];
  EXPECT_EQ(oom.event, 5U);
  EXPECT_EQ(oom.heap, HeapId{1});
  ASSERT_EQ(oom.refusals.size(), 2U);
  EXPECT_EQ(oom.refusals[1].heap, driver_);
  EXPECT_EQ(oom.refusals[1].events, (std::vector<std::uint32_t>{3, 4}));
  EXPECT_EQ(oom.verdict, OomVerdict::larger_than_device);
  EXPECT_TRUE(oom.survivors.empty());
  EXPECT_EQ(oom.device_total, 139_GiB);
  EXPECT_LE(*oom.capacity, 139_GiB);
  EXPECT_THAT(explanation(oom), HasSubstr("4.00 TiB requested, but the device has 139.00 GiB in total"));
  EXPECT_EQ(ooms.of_event(3), &oom);
}

TEST_F(BothLevels, WhatTheDriverRefusedAtFirstAndThenGaveDidNotFail) {
  builder_.event(EventKind::segment_alloc, pool_, base, 20_MiB);
  refuse(below_, 40_MiB);
  builder_.event(EventKind::segment_free, pool_, base, 20_MiB);
  builder_.event(EventKind::segment_alloc, pool_, base, 40_MiB);
  builder_.alloc(pool_, base, 40_MiB);
  const OutOfMemories ooms = judged();
  EXPECT_EQ(ooms.count, 0U);
  EXPECT_EQ(ooms.retried, 1U);
}

TEST_F(BothLevels, WhatAnotherPartOfTheProgramWasRefusedIsAFailureOfItsOwn) {
  refuse(below_, 40_MiB);
  builder_.free(builder_.alloc(below_, base, 2_MiB));  // it continued with less
  refuse(pool_, 30_MiB);
  refuse(below_, 1_MiB);  // too small to be for the request that follows
  refuse(pool_, 30_MiB);
  EXPECT_EQ(judged().count, 4U);
}

TEST_F(BothLevels, ThreadsAreToldApart) {
  auto& tables = builder_.trace().tables;
  tables.threads.push_back({.tid = 7});
  Origin other = tables[below_];
  other.thread = ThreadId{1};
  tables.origins.push_back(other);
  refuse(OriginId{static_cast<std::uint32_t>(tables.origins.size() - 1)}, 40_MiB);
  refuse(pool_, 40_MiB);
  EXPECT_EQ(judged().count, 2U);
}

// 100 GiB are in use, 99 by other processes; the pool can only get what is free.
TEST_F(BothLevels, TheDeviceBoundsWhatThereWas) {
  builder_.event(EventKind::segment_alloc, pool_, base, 1_GiB);
  builder_.alloc(pool_, base, 600_MiB);
  sample(100_GiB, 39_GiB);
  refuse(pool_, 60_GiB, 39_GiB);
  const OutOfMemory oom = judged().examined.at(0);
  EXPECT_EQ(oom.capacity, 40_GiB);
  EXPECT_EQ(oom.verdict, OomVerdict::lack_of_memory);
  EXPECT_FALSE(oom.own_limit());
}

TEST_F(BothLevels, WhatIsFreeInThePoolAndOnTheDeviceTogetherIsFragmented) {
  builder_.event(EventKind::segment_alloc, pool_, base, 1_GiB);
  builder_.alloc(pool_, base + 500_MiB, 100_MiB);
  refuse(pool_, 600_MiB, 50_MiB);
  EXPECT_EQ(judged().examined.at(0).verdict, OomVerdict::fragmentation);
}

TEST_F(BothLevels, ARefusalAloneDoesNotBoundTheMemory) {
  builder_.event(EventKind::segment_alloc, pool_, base, 1_GiB);
  builder_.alloc(pool_, base, 900_MiB);
  refuse(pool_, 50_GiB);
  const OutOfMemory oom = judged().examined.at(0);
  EXPECT_EQ(oom.verdict, OomVerdict::lack_of_memory);
  EXPECT_TRUE(oom.survivors.empty());
  EXPECT_FALSE(oom.bounded);
  EXPECT_THAT(explanation(oom), HasSubstr("What the pool could have is known only from refusals"));
}

TEST_F(BothLevels, WhatNoDeviceHasIsTooLargeEvenWhereNothingIsKnownOfTheDevice) {
  refuse(pool_, 4096_GiB);
  const OutOfMemory oom = judged().examined.at(0);
  EXPECT_EQ(oom.verdict, OomVerdict::larger_than_device);
  EXPECT_THAT(explanation(oom), HasSubstr("no device has that much"));
}

TEST_F(BothLevels, AMemoryFractionBoundsTheMemoryWhereItIsSetWithTheSettings) {
  auto& tables = builder_.trace().tables;
  tables.settings.push_back(
      {.entries = {{builder_.string("PYTORCH_CUDA_ALLOC_CONF"), builder_.string("per_process_memory_fraction:0.25")}}});
  builder_.push({.kind = EventKind::settings, .origin = pool_, .value = tables.settings.size() - 1});
  sample(1_GiB, 79_GiB);
  refuse(pool_, 60_GiB, 79_GiB);
  const OutOfMemory oom = judged().examined.at(0);
  EXPECT_EQ(oom.capacity, 20_GiB);
  EXPECT_EQ(oom.verdict, OomVerdict::lack_of_memory);
  EXPECT_TRUE(oom.own_limit());
}

/// A program that allocates from the driver directly.
class Native : public BothLevels {};

TEST_F(Native, LackOfMemoryIsJudgedByWhatTheDeviceHadFree) {
  builder_.alloc(below_, base, 4_GiB);
  sample(5_GiB, 19_GiB);
  builder_.alloc(below_, base + 4_GiB, 16_GiB);
  refuse(below_, 8_GiB);
  refuse(below_, 2_GiB);
  refuse(below_, 64_GiB);
  const OutOfMemories ooms = judged();
  ASSERT_EQ(ooms.examined.size(), 3U);
  EXPECT_EQ(ooms.examined[0].device_free, 3_GiB);
  EXPECT_EQ(ooms.examined[0].live, 20_GiB);
  EXPECT_EQ(ooms.examined[0].verdict, OomVerdict::lack_of_memory);
  EXPECT_THAT(explanation(ooms.examined[0]), HasSubstr("3.00 GiB of the device's 24.00 GiB free"));
  EXPECT_EQ(ooms.examined[1].verdict, OomVerdict::unknown);
  EXPECT_EQ(ooms.examined[2].verdict, OomVerdict::larger_than_device);
}

TEST_F(Native, ARefusalOfHostMemoryHidesNoneOfTheDevice) {
  sample(1_GiB, 7_GiB);
  refuse(builder_.origin(builder_.heap("cuda.host", Level::driver, -1)), 1_GiB);
  refuse(below_, 7_GiB + 512_MiB);
  const OutOfMemories ooms = judged();
  ASSERT_EQ(ooms.examined.size(), 2U);
  EXPECT_EQ(ooms.examined[0].device_free, std::nullopt);
  EXPECT_EQ(ooms.examined[1].verdict, OomVerdict::lack_of_memory);
  EXPECT_EQ(ooms.examined[1].device_free, 7_GiB);
}

TEST_F(Native, WithoutSamplesNothingIsClaimed) {
  refuse(below_, 8_GiB);
  const OutOfMemory oom = judged().examined.at(0);
  EXPECT_EQ(oom.verdict, OomVerdict::unknown);
  EXPECT_EQ(oom.capacity, std::nullopt);
  EXPECT_THAT(explanation(oom), HasSubstr("no samples of the device"));
}

// The history ends with the failure: what serves the request is no survivor, and what it leaves is told.
TEST_F(BothLevels, WhatFollowsTheLastFailureIsNotKnown) {
  builder_.event(EventKind::segment_alloc, pool_, base, 1_GiB);
  builder_.free(builder_.alloc(pool_, base, 900_MiB));
  builder_.alloc(pool_, base + 500_MiB, 100_MiB);
  refuse(pool_, 600_MiB, 50_MiB);
  const Trace& trace = builder_.trace();
  const auto [remedies, ooms] = judge_with_remedies(trace);
  const OutOfMemory& oom = ooms.examined.at(0);
  EXPECT_EQ(oom.verdict, OomVerdict::fragmentation);
  EXPECT_TRUE(oom.is_last);
  EXPECT_FALSE(oom.rest);
  EXPECT_TRUE(oom.survivors.empty());
  ASSERT_FALSE(oom.serve_only.empty());
  EXPECT_THAT(survivor_text(remedies, oom), HasSubstr("(the rest is not recorded)"));
}

TEST_F(BothLevels, OthersHaveTheRestOfTheDevice) {
  builder_.event(EventKind::segment_alloc, pool_, base, 16_GiB);
  builder_.alloc(pool_, base, 16_GiB);
  sample(74_GiB, 6_GiB);
  refuse(pool_, 8_GiB, 6_GiB);
  const OutOfMemory oom = judged().examined.at(0);
  EXPECT_EQ(oom.verdict, OomVerdict::lack_of_memory);
  EXPECT_EQ(oom.held_outside(), 58_GiB);
  EXPECT_THAT(explanation(oom), HasSubstr("58.00 GiB of the device's 80.00 GiB are held outside the pool"));
  EXPECT_THAT(remedy_for_lack(oom), HasSubstr("free what others hold"));
}

TEST_F(Gaps, WhereTheSizeOfTheDeviceIsNotKnownOthersMayHoldTheRest) {
  const OutOfMemory oom = fail(50_MiB, 4_MiB);
  EXPECT_EQ(oom.verdict, OomVerdict::lack_of_memory);
  EXPECT_THAT(remedy_for_lack(oom), HasSubstr("ask for less; if the card has over 44.00 MiB, others hold it"));
}

TEST_F(Gaps, OfACardWhoseSizeTheCallerKnowsOthersHoldTheRest) {
  builder_.push({.kind = EventKind::alloc_failed, .origin = origin_, .size = 50_MiB, .value = (4_MiB).count});
  const OutOfMemory oom = judge_with_remedies(builder_.trace(), 24_GiB).ooms.examined.at(0);
  EXPECT_EQ(oom.verdict, OomVerdict::lack_of_memory);
  EXPECT_EQ(oom.held_outside(), 24_GiB - 44_MiB);
  EXPECT_THAT(remedy_for_lack(oom), HasSubstr("free what others hold, 23.96 GiB of the device's 24.00 GiB"));
}

TEST_F(Gaps, ALimitOfTheProgramIsToBeRaised) {
  const OutOfMemory oom = fail(400_MiB, 80_GiB);
  EXPECT_THAT(remedy_for_lack(oom), HasSubstr("raise the program's limit"));
}

// PyTorch waits for blocks of other streams when a request fails, and then asks the device only.
TEST(OutOfMemory, ABlockThatBecameFreeWhileTheRequestWaitedCameTooLate) {
  testing::TraceBuilder builder;
  builder.trace().tables.heaps[1].observes_completion = true;
  const OriginId origin = builder.origin(HeapId{1});
  builder.event(EventKind::segment_alloc, origin, base, 24_MiB);
  builder.alloc(origin, base, 4_MiB);
  const AllocationId awaited = builder.alloc(origin, base + 4_MiB, 20_MiB);
  builder.free_requested(awaited);
  builder.free_completed(awaited);
  builder.push({.kind = EventKind::alloc_failed, .origin = origin, .size = 20_MiB, .value = 1});
  const OutOfMemory oom = judge(builder.trace()).examined.at(0);
  EXPECT_TRUE(oom.waited_in_vain);
  EXPECT_EQ(reason_of(oom), "its block was awaiting free");
  EXPECT_THAT(explanation(oom), HasSubstr("an identical retry is served"));
}

TEST(OutOfMemory, APoolsOwnMaximumIsItsCapacity) {
  testing::TraceBuilder builder;
  auto& tables = builder.trace().tables;
  const HeapId heap = builder.heap("rmm.pool", Level::framework, 0);
  const OriginId origin = builder.origin(heap);
  tables.settings.push_back({.entries = {{builder.string("kind"), builder.string("rmm.pool")},
                                         {builder.string("initial"), builder.string("268435456")},
                                         {builder.string("limit"), builder.string("1073741824")}}});
  builder.push({.kind = EventKind::settings, .origin = origin, .value = tables.settings.size() - 1});
  builder.event(EventKind::segment_alloc, origin, base, 256_MiB);
  builder.event(EventKind::alloc_failed, origin, {}, 1_GiB);
  const Trace& trace = builder.trace();
  const auto [remedies, ooms] = judge_with_remedies(trace);
  const OutOfMemory& oom = ooms.examined.at(0);
  EXPECT_EQ(oom.capacity, 1_GiB);
  EXPECT_EQ(oom.verdict, OomVerdict::fragmentation);
  EXPECT_THAT(explanation(oom), HasSubstr("is not joined"));
  ASSERT_FALSE(oom.serve_only.empty());
  EXPECT_EQ(remedies.tried[oom.serve_only.front().remedy].text, "rmm.pool with initial=1.00 GiB");
}

TEST_F(Gaps, TheCapacityCanBeGiven) {
  builder_.push({.kind = EventKind::alloc_failed, .origin = origin_, .size = 15_MiB});
  const Trace& trace = builder_.trace();
  const OutOfMemories ooms = judge_with_remedies(trace, 12_MiB).ooms;
  EXPECT_EQ(ooms.examined.at(0).capacity, 12_MiB);
  EXPECT_EQ(ooms.examined.at(0).verdict, OomVerdict::lack_of_memory);
}

TEST(OutOfMemory, TheSettingThatUsersKnowComesFirstAmongThoseThatServeARequest) {
  const auto file = test::history("oom_default");
  if (!file) GTEST_SKIP();
  const Result<Trace> trace = open_any(*file);
  ASSERT_TRUE(trace);
  const auto [remedies, ooms] = judge_with_remedies(*trace);
  ASSERT_TRUE(ooms.answer);
  std::size_t with_expandable = 0;
  for (const OutOfMemory& oom : ooms.examined) {
    for (std::size_t i = 0; i < oom.survivors.size(); ++i) {
      if (remedies.tried[oom.survivors[i]].text != "expandable_segments:True") continue;
      ++with_expandable;
      const bool something_serves_all = ooms.answer->served == ooms.fragmented;
      EXPECT_TRUE(something_serves_all || i == 0) << oom.event;
    }
  }
  EXPECT_GT(with_expandable, 0U);
}

TEST(Strip, ShowsWhatIsInUse) {
  const std::vector<HeapBlock> blocks{{.address = base, .size = 4_MiB, .use = BlockUse::live},
                                      {.address = base + 4_MiB, .size = 3_MiB},
                                      {.address = base + 7_MiB, .size = 1_MiB, .use = BlockUse::pending}};
  EXPECT_EQ(strip_of(blocks, base, base + 8_MiB, 4), "██·▒");
  EXPECT_EQ(strip_of(blocks, base, base + 8_MiB, 1), "▒");
}

// The guarantee: a setting named by a verdict serves the request when the trace is replayed with it at that capacity.
TEST(Verdicts, OfRealFailuresAreConfirmedByTheReplay) {
  int judged = 0;
  std::size_t survivors = 0;
  for (const char* name : {"oom_default", "oom_expandable", "oom_maxsplit", "oom_gc", "oom_s12_expandable_gc"}) {
    const auto file = test::history(name);
    if (!file) continue;
    const Result<Trace> trace = open_any(*file);
    ASSERT_TRUE(trace);
    const auto [remedies, ooms] = judge_with_remedies(*trace);
    EXPECT_GT(ooms.count, 0U) << name;
    std::vector<std::uint32_t> recorded;
    for (const OutOfMemory& oom : ooms.examined) recorded.push_back(static_cast<std::uint32_t>(oom.event));
    for (const OutOfMemory& oom : ooms.examined) {
      ++judged;
      EXPECT_NE(oom.verdict, OomVerdict::unknown);
      // Everything the request may use is smaller than it.
      EXPECT_LT(oom.largest_in_pool_stream, oom.requested) << name << " event " << oom.event;
      EXPECT_LE(oom.reserved, *oom.capacity);
      EXPECT_TRUE(oom.verdict == OomVerdict::fragmentation || oom.survivors.empty()) << name << ' ' << oom.event;
      for (const std::size_t i : oom.survivors) {
        const Remedy& remedy = remedies.tried[i];
        if (remedy.kind == RemedyKind::one_stream) continue;
        const DeviceModel device{.kind = DeviceModel::Kind::capacity, .capacity = *oom.capacity, .told = true};
        const auto replayed = replay(remedies.heaps, std::vector{remedy.outcome.policy}, {.device = device});
        ASSERT_TRUE(replayed);
        for (const std::uint32_t failed : replayed->front().failed_events) {
          EXPECT_NE(failed, oom.event) << name << ": " << remedy.text;
          EXPECT_TRUE(failed > oom.event || std::ranges::binary_search(recorded, failed)) << name << remedy.text;
        }
        ++survivors;
      }
    }
  }
  EXPECT_GT(judged, 15);
  EXPECT_GT(survivors, 10U);
}

}  // namespace
}  // namespace memreel
