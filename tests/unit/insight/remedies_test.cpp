// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/insight/remedies.h"

#include <gtest/gtest.h>

#include "formats/import/import.h"
#include "tests/histories.h"
#include "tests/unit/analyzer/history.h"

namespace memreel {
namespace {

using testing::base;

Remedies replayed(const Trace& trace, std::uint64_t rows = remedy_rows) {
  Remedies remedies = untried_remedies(trace);
  replay_remedies(trace, heap_histories(trace), remedies, rows);
  return remedies;
}

TEST(Remedies, OneStreamGivesBackWhatWasStranded) {
  testing::TraceBuilder builder;
  const OriginId first = builder.origin(HeapId{1});
  const OriginId second = builder.origin(HeapId{1}, 0x77);
  builder.free(builder.alloc(first, base, 12_MiB));
  builder.free(builder.alloc(second, base + 64_MiB, 12_MiB));
  const Remedies remedies = replayed(builder.trace());
  EXPECT_EQ(remedies.baseline_peak, 24_MiB);
  const auto one_stream = std::ranges::find(remedies.tried, RemedyKind::one_stream, &Remedy::kind);
  ASSERT_NE(one_stream, remedies.tried.end());
  EXPECT_EQ(remedies.gives_back(*one_stream), std::int64_t{(12_MiB).count});
}

TEST(Remedies, LongTracesGetTheLikeliestCandidatesOnly) {
  testing::TraceBuilder builder;
  const OriginId origin = builder.origin(HeapId{1});
  builder.free(builder.alloc(origin, base, 30_MiB));
  const Remedies all = replayed(builder.trace());
  const Remedies few = replayed(builder.trace(), 1);
  EXPECT_GT(all.tried.size(), 3U);
  ASSERT_EQ(few.tried.size(), 1U);
  EXPECT_EQ(few.tried.front().text, "expandable_segments:True");
  EXPECT_EQ(few.left_out, all.tried.size() - 1);
}

TEST(Remedies, ASecondReplayBeginsAnew) {
  testing::TraceBuilder builder;
  builder.free(builder.alloc(builder.origin(HeapId{1}), base, 30_MiB));
  const Trace trace = builder.trace();
  Remedies remedies = untried_remedies(trace);
  for (int call = 0; call < 2; ++call) replay_remedies(trace, heap_histories(trace), remedies, 3);
  EXPECT_EQ(remedies.tried.size(), 1U);
  EXPECT_EQ(remedies.left_out, replayed(trace, 3).left_out);
}

TEST(Remedies, NothingIsTriedForADriverLevelTrace) {
  testing::TraceBuilder builder;
  builder.alloc(builder.origin(builder.heap("cuda.driver", Level::driver, 0)), base, 1_MiB);
  EXPECT_TRUE(replayed(builder.trace()).tried.empty());
}

TEST(Remedies, NothingIsTriedForWhatPyTorchGetsFromTheCLibrary) {
  testing::TraceBuilder builder;
  const OriginId host = builder.origin(builder.heap("torch.cpu", Level::framework, -1));
  builder.alloc(host, base, 30_MiB);
  EXPECT_TRUE(replayed(builder.trace()).tried.empty());
  builder.free(builder.alloc(builder.origin(HeapId{1}), base, 30_MiB));
  const Remedies remedies = replayed(builder.trace());
  EXPECT_TRUE(remedies.is_torch);
  EXPECT_EQ(remedies.heaps.size(), 1U);
  EXPECT_FALSE(remedies.tried.empty());
}

TEST(Remedies, SizesThatNoDeviceHasAreNotReplayed) {
  testing::TraceBuilder builder;
  builder.alloc(builder.origin(builder.heap("heap", Level::framework, 0)), base, Bytes{std::uint64_t{1} << 62U});
  EXPECT_TRUE(replayed(builder.trace()).tried.empty());
}

Outcome failing_at(std::vector<std::uint32_t> events) {
  ReplayResult result{.heap = HeapId{1}, .events = 1};
  result.failed_allocations = events.size();
  result.failed_events = std::move(events);
  return {.policy = {}, .heaps = {result}};
}

TEST(Survival, IsServingTheRequestAndAllBeforeIt) {
  const std::vector<std::uint32_t> recorded{10, 20, 30};
  EXPECT_TRUE(survives(failing_at({}), HeapId{1}, 10, recorded));
  EXPECT_FALSE(survives(failing_at({10}), HeapId{1}, 10, recorded));
  EXPECT_TRUE(survives(failing_at({30}), HeapId{1}, 20, recorded));
  // Requests that failed before may still fail; those that were served may not.
  EXPECT_TRUE(survives(failing_at({10}), HeapId{1}, 20, recorded));
  EXPECT_FALSE(survives(failing_at({15}), HeapId{1}, 20, recorded));
  EXPECT_FALSE(survives(failing_at({}), HeapId{2}, 20, recorded));
}

TEST(Survival, IsNotClaimedBeyondTheFailuresThatAreNamed) {
  Outcome outcome = failing_at({20});
  outcome.heaps.front().failed_allocations = 5;
  EXPECT_TRUE(survives(outcome, HeapId{1}, 10, std::vector<std::uint32_t>{10}));
  EXPECT_FALSE(survives(outcome, HeapId{1}, 30, std::vector<std::uint32_t>{20, 30}));
}

}  // namespace
}  // namespace memreel
