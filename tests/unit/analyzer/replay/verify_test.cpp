// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/verify.h"

#include <gtest/gtest.h>

#include "analyzer/replay/torch_calls.h"
#include "tests/unit/analyzer/history.h"

namespace memreel {
namespace {

using testing::History;

constexpr Address segment{0x7F00'0000'0000};

/// Two allocations in one 20 MiB segment, as PyTorch places them.
History two_allocations() {
  History history;
  history.segment_alloc(segment, 20_MiB);
  history.alloc(5_MiB, segment);
  history.alloc(3_MiB, segment + 5_MiB);
  return history;
}

Verification verified(const Trace& trace) {
  const auto result = verify(trace);
  EXPECT_TRUE(result) << (result ? "" : result.error().message());
  return result->at(0);
}

TEST(Verify, IsExactWhenTheRulesRepeatTheRecording) {
  const Verification result = verified(two_allocations().trace());
  EXPECT_TRUE(result.exact());
  EXPECT_EQ(result.allocations, 2U);
  EXPECT_EQ(result.address_matches, 2U);
  EXPECT_EQ(result.segment_events, 1U);
  EXPECT_EQ(result.segment_matches, 1U);
  EXPECT_EQ(result.peak_reserved, 20_MiB);
  EXPECT_EQ(result.recorded_peak_reserved, 20_MiB);
}

/// A private pool whose 2 MiB segment, when all of it is free, gets back three blocks in a stack with `function`; the
/// last would usually be served by the pool's large segment. The first one is freed again and serves the request that
/// follows.
History restored_pool(const char* function) {
  History history;
  Trace& trace = history.trace();
  history.segment_alloc(segment + 32_MiB, 20_MiB, 1);
  history.free(history.alloc(3_MiB, segment + 32_MiB, 0, 1));
  history.segment_alloc(segment, 2_MiB, 1);
  history.free(history.alloc(512_B, segment, 0, 1));

  const auto first_restored = trace.events.count();
  const AllocationId freed = history.alloc(2560_B, segment, 0, 1);
  history.alloc(64'000_B, segment + 2560_B, 0, 1);
  history.alloc(2_MiB - 66'560_B, segment + 66'560_B, 0, 1);
  const auto end = trace.events.count();
  trace.tables.strings.emplace_back(function);
  trace.tables.frames.push_back({.function = StringId{static_cast<std::uint32_t>(trace.tables.strings.size() - 1)}});
  trace.tables.stacks.push_back({.frame = FrameId{static_cast<std::uint32_t>(trace.tables.frames.size() - 1)}});
  for (auto i = first_restored; i < end; ++i)
    trace.events.set_stack(i, StackId{static_cast<std::uint32_t>(trace.tables.stacks.size() - 1)});

  history.free(freed);
  history.alloc(1024_B, segment, 0, 1);
  return history;
}

TEST(Verify, GraphTreesLayOutAPoolAsItWas) {
  for (const char* function :
       {"apply_checkpoint_execution_state_in_allocator",
        "c10::cuda::CUDACachingAllocator::Native::DeviceCachingAllocator::setCheckpointPoolState()"}) {
    const Verification result = verified(restored_pool(function).trace());
    EXPECT_TRUE(result.exact()) << function;
    EXPECT_EQ(result.address_matches, 6U) << function;
  }
}

TEST(Verify, OtherRequestsFollowTheRulesOfSizes) {
  const Verification result = verified(restored_pool("run").trace());
  EXPECT_FALSE(result.exact());
  EXPECT_LT(result.address_matches, 6U);
}

/// Two free blocks of 512 B, the lower of which was split off later, and a request that gets the one at `taken`.
History two_equal_blocks(Bytes taken) {
  History history;
  history.segment_alloc(segment, 2_MiB);
  const AllocationId first = history.alloc(512_B, segment);
  const AllocationId second = history.alloc(512_B, segment + 512_B);
  const AllocationId third = history.alloc(512_B, segment + 1024_B);
  history.alloc(512_B, segment + 1536_B);
  history.free(first);
  history.free(second);  // swallows the first
  const AllocationId lower = history.alloc(512_B, segment);
  history.alloc(512_B, segment + 512_B);
  history.free(lower);
  history.free(third);
  history.alloc(512_B, segment + taken);
  return history;
}

TEST(Verify, ReleasesTakeAnotherOfSeveralEqualBlocks) {
  const auto is_exact = [](History history, const char* release) {
    const auto result = verify(history.trace(), {.torch_release = release});
    EXPECT_TRUE(result && result->at(0).rules.ends_with("as requested"));
    return result && result->at(0).exact();
  };
  for (const char* by_address : {"2.1", "2.11", "2.13", "2.15.0"}) {
    EXPECT_TRUE(is_exact(two_equal_blocks(0_B), by_address)) << by_address;
    EXPECT_FALSE(is_exact(two_equal_blocks(1024_B), by_address)) << by_address;
  }
  EXPECT_FALSE(is_exact(two_equal_blocks(0_B), "2.12"));
  EXPECT_TRUE(is_exact(two_equal_blocks(1024_B), "2.12"));
}

TEST(Verify, MemoryGotFirstIsTakenFirstSince213) {
  // The second segment, which lies below the first, has as much left as the first.
  const auto recorded = [](Address taken) {
    History history;
    history.segment_alloc(segment + 20_MiB, 20_MiB);
    const AllocationId first = history.alloc(6_MiB, segment + 20_MiB);
    history.alloc(9_MiB, segment + 26_MiB);
    history.segment_alloc(segment, 20_MiB);
    const AllocationId second = history.alloc(6_MiB, segment);
    history.alloc(9_MiB, segment + 6_MiB);
    history.free(first);
    history.free(second);
    history.alloc(6_MiB, taken);
    return history;
  };
  for (const char* release : {"2.11", "2.13"}) {
    const Address taken = std::string_view(release) == "2.11" ? segment : segment + 20_MiB;
    const auto result = verify(recorded(taken).trace(), {.torch_release = release});
    ASSERT_TRUE(result);
    EXPECT_TRUE(result->at(0).exact()) << release;
  }
}

TEST(Verify, WhoseRulesTheyAreIsSaid) {
  EXPECT_EQ(verified(two_equal_blocks(0_B).trace()).rules, "PyTorch 2.5 to 2.11");
  const Verification tried = verified(two_equal_blocks(1024_B).trace());
  EXPECT_TRUE(tried.exact());
  EXPECT_NE(tried.rules.find("PyTorch 2.12: the history does not state its release"), std::string::npos) << tried.rules;
  History told;
  told.settings({{"pytorch_release", "2.12"}});
  told.segment_alloc(segment, 20_MiB);
  told.alloc(5_MiB, segment);
  EXPECT_EQ(verified(told.trace()).rules, "PyTorch 2.12, as stated by the snapshot");
  EXPECT_FALSE(verify(two_allocations().trace(), {.torch_release = "1.13"}));
}

TEST(Verify, AnotherAddressIsADivergenceThatShowsTheChoice) {
  History history = two_allocations();
  history.alloc(2_MiB, segment + 10_MiB);
  history.alloc(2_MiB, segment + 10_MiB);
  const Verification result = verified(history.trace());
  EXPECT_FALSE(result.exact());
  EXPECT_EQ(result.address_matches, 3U);
  ASSERT_TRUE(result.first_divergence);
  EXPECT_EQ(result.first_divergence->event, 3U);
  EXPECT_NE(result.first_divergence->expected.find("0x7f0000a00000"), std::string::npos);
  EXPECT_NE(result.first_divergence->happened.find("0x7f0000800000"), std::string::npos);
  ASSERT_EQ(result.first_divergence->free_blocks.size(), 1U);
  EXPECT_EQ(result.first_divergence->free_blocks[0], "12582912 bytes at 0x7f0000800000");
}

TEST(Verify, PoolsOfARecordingThatEndOneAfterAnotherGiveBackAlone) {
  History history;
  for (const std::uint32_t pool : {0U, 1U, 2U}) {
    history.segment_alloc(segment + 64_MiB * pool, 20_MiB, pool);
    history.free(history.alloc(5_MiB, segment + 64_MiB * pool, 0, pool));
  }
  for (const std::uint32_t pool : {1U, 2U}) history.segment_free(segment + 64_MiB * pool, 20_MiB, pool);
  Trace trace = history.trace();
  trace.header.source = "cupti";
  EXPECT_EQ(infer_torch_calls(trace), 4U);
  EXPECT_TRUE(verified(trace).exact());
}

TEST(Verify, OriginsOfDeducedCallsMayNeedRoomOfTheirOwn) {
  for (std::uint32_t pools = 1; pools < 20; ++pools) {  // among them as many as the table can show
    History history;
    for (std::uint32_t pool = 0; pool < pools; ++pool) {
      history.segment_alloc(segment + 64_MiB * pool, 20_MiB, pool);
      history.free(history.alloc(5_MiB, segment + 64_MiB * pool, 0, pool));
    }
    for (std::uint32_t pool = 0; pool < pools; ++pool) history.segment_free(segment + 64_MiB * pool, 20_MiB, pool);
    Trace trace = history.trace();
    trace.header.source = "cupti";
    trace.tables.origins.shrink_to_fit();
    infer_torch_calls(trace);
    for (const OriginId origin : trace.events.origins()) ASSERT_LT(index(origin), trace.tables.origins.size());
  }
}

TEST(Verify, SettingsThatChangedAreNamedWhereTheReplayDiverges) {
  const std::map<std::string, std::string> unlimited{{"max_split_size", "-1"}}, limited{{"max_split_size", "20971520"}};
  const auto history = [&](const std::map<std::string, std::string>& then, Address last) {
    History result;
    result.settings(unlimited);
    result.segment_alloc(segment, 20_MiB);
    result.settings(then);  // event 2
    result.alloc(5_MiB, last);
    return result;
  };
  const Verification diverges = verified(history(limited, segment + 1_MiB).trace());
  EXPECT_FALSE(diverges.exact());
  EXPECT_NE(diverges.note.find("event 2"), std::string::npos) << diverges.note;
  EXPECT_NE(verified(history(unlimited, segment + 1_MiB).trace()).note.find("final settings"), std::string::npos);
  EXPECT_EQ(verified(history(limited, segment).trace()).note, "") << "they made no difference";
}

TEST(Verify, ASegmentThatTheRulesDoNotTakeIsADivergence) {
  History history = two_allocations();
  history.segment_alloc(segment + 1_GiB, 20_MiB);
  history.alloc(3_MiB, segment + 1_GiB);
  const Verification result = verified(history.trace());
  ASSERT_TRUE(result.first_divergence);
  EXPECT_EQ(result.first_divergence->event, 3U);
  EXPECT_EQ(result.segment_matches, 1U);
}

TEST(Verify, ASegmentThatTheRulesTakeAndTheRecordingDidNotIsADivergence) {
  History history = two_allocations();
  history.alloc(15_MiB, segment + 8_MiB);
  const Verification result = verified(history.trace());
  ASSERT_TRUE(result.first_divergence);
  EXPECT_NE(result.first_divergence->happened.find("16777216"), std::string::npos) << result.first_divergence->happened;
}

TEST(Verify, AnotherSegmentSizeIsADivergence) {
  History history;
  history.segment_alloc(segment, 18_MiB);
  history.alloc(5_MiB, segment);
  EXPECT_FALSE(verified(history.trace()).exact());
}

TEST(Verify, ReleasesBelongToEmptyCacheOrToARefusedRequest) {
  History history;
  history.segment_alloc(segment, 40_MiB);
  history.free(history.alloc(40_MiB, segment));
  history.empty_cache();
  history.segment_free(segment, 40_MiB);
  history.segment_alloc(segment, 60_MiB);
  history.free(history.alloc(60_MiB, segment));
  history.segment_free(segment, 60_MiB);  // the device refused first
  history.segment_alloc(segment, 80_MiB);
  const auto last = history.alloc(80_MiB, segment);
  history.failed(70_MiB);
  history.free(last);
  const Verification result = verified(history.trace());
  EXPECT_TRUE(result.exact()) << result.first_divergence->expected << " / " << result.first_divergence->happened;
  EXPECT_EQ(result.segment_events, 5U);
}

TEST(Verify, AReleaseThatWasNotRepeatedIsADivergence) {
  History history = two_allocations();
  history.segment_free(segment, 20_MiB);
  EXPECT_FALSE(verified(history.trace()).exact());
}

TEST(Verify, AFailureThatTheRulesDoNotShareIsADivergence) {
  History history = two_allocations();
  history.failed(2_MiB);
  const Verification result = verified(history.trace());
  ASSERT_TRUE(result.first_divergence);
  EXPECT_EQ(result.first_divergence->expected, "the request failed");
}

TEST(Verify, RecordedSettingsApply) {
  History history;
  history.settings({{"max_split_size", "20971520"}, {"expandable_segments", "False"}});
  history.segment_alloc(segment, 40_MiB);
  history.free(history.alloc(40_MiB, segment));
  history.segment_alloc(segment + 1_GiB, 20_MiB);
  history.alloc(3_MiB, segment + 1_GiB);
  const Verification result = verified(history.trace());
  EXPECT_TRUE(result.exact());
  EXPECT_EQ(result.policy.parameters.at("max_split_size_mb"), "20");
}

TEST(Verify, HistoriesThatLackSomethingAreNeverExact) {
  for (const auto lose :
       {+[](Trace& trace) { trace.losses.began_late = true; },
        +[](Trace& trace) { trace.losses.preexisting_allocations = 3; },
        +[](Trace& trace) { trace.losses.history_overflowed = true; },
        +[](Trace& trace) { trace.losses.ring_full = 1; }, +[](Trace& trace) { trace.read.damaged_packets = 1; }}) {
    History history = two_allocations();
    lose(history.trace());
    const Verification result = verified(history.trace());
    EXPECT_FALSE(result.note.empty());
    EXPECT_FALSE(result.exact());
  }
}

TEST(Verify, OtherAllocatorsAreNotJudged) {
  History history = two_allocations();
  history.trace().tables.strings[1] = "rmm.pool";
  const auto result = verify(history.trace());
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message().find("PyTorch"), std::string::npos);
}

}  // namespace
}  // namespace memreel
