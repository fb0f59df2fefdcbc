// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "analyzer/replay/prepare.h"
#include "analyzer/replay/replay.h"
#include "analyzer/replay/steps.h"
#include "tests/bench/synthetic.h"
#include "tests/unit/analyzer/device_policies.h"
#include "tests/unit/analyzer/history.h"

namespace memreel {
namespace {

using testing::History;

ReplayResult measured(const Prepared& heap, const std::string& policy, std::optional<Bytes> capacity = {}) {
  ReplayOptions options{.placement_metrics = true};
  if (capacity) options.device = DeviceModel{.kind = DeviceModel::Kind::capacity, .capacity = *capacity};
  const auto results = replay(std::array{heap}, *parse_policies(policy), options);
  EXPECT_TRUE(results) << (results ? "" : results.error().message());
  return results->at(0);
}

TEST(InternalWaste, IsWhatRoundingTookAtPeakReserved) {
  History history;
  history.alloc(3_MiB);  // pages of 4
  const ReplayResult result = measured(history.prepared(), "bound.pages");
  EXPECT_DOUBLE_EQ(result.internal_waste, 0.25);
  EXPECT_FALSE(result.free_memory) << "a bound places nothing";
  EXPECT_DOUBLE_EQ(measured(history.prepared(), "bound.live").internal_waste, 0);
}

TEST(FreeMemory, OfAnotherStreamThatFitsIsStrandedWhenThePolicyGrows) {
  History history;
  const auto a = history.alloc(30_MiB, {}, 7);
  const auto b = history.alloc(12_MiB, {}, 7);
  const auto c = history.alloc(40_MiB, {}, 0);
  history.free(a);
  history.free(b);
  history.free(c);
  history.alloc(20_MiB, {}, 7);  // reuses the 30 MiB of its stream
  history.alloc(10_MiB, {}, 7);  // the remainder
  history.alloc(35_MiB, {}, 7);  // grows: stream 0's 40 MiB would have fit, 12 MiB do not
  const ReplayResult result = measured(history.prepared(), "torch.native");
  ASSERT_TRUE(result.free_memory);
  EXPECT_EQ(result.free_memory->stranded_stream.bytes, 40_MiB);
  EXPECT_EQ(result.free_memory->stranded_stream.event, history.trace().events.count() - 1);
  EXPECT_EQ(result.free_memory->stranded_pool.bytes, 0_B);
  EXPECT_EQ(measured(history.prepared(), "fit.best").free_memory->stranded_stream.bytes, 0_B) << "serves any stream";
}

TEST(FreeMemory, OfAnotherPoolIsStrandedInFailuresToo) {
  History history;
  const auto a = history.alloc(30_MiB, {}, 0, 1);
  history.free(a);
  history.alloc(20_MiB);
  const ReplayResult result = measured(history.prepared(), "torch.native", 40_MiB);
  EXPECT_EQ(result.failed_allocations, 1U);
  EXPECT_EQ(result.free_memory->stranded_pool.bytes, 30_MiB);
  EXPECT_EQ(result.free_memory->stranded_pool.event, 3U);
  EXPECT_EQ(result.free_memory->stranded_stream.bytes, 0_B);
}

TEST(FreeMemory, InSmallBlocksIsUnusableForLargeRequests) {
  History history;
  std::array<AllocationId, 4> ids{};
  for (const auto i : {0U, 1U, 2U, 3U}) ids[i] = history.alloc(i == 2 ? 48_MiB : 16_MiB);
  history.free(ids[0]);  // a gap of 16 MiB
  history.free(ids[2]);  // and one of 48 MiB
  const ReplayResult result = measured(history.prepared(), "fit.best");
  // First only the small gap is free, then both.
  EXPECT_EQ(result.free_memory->unusable, (std::array<double, 4>{0, 1, 1, 1}));
}

/// `steps` steps of two buffers; in every second step the first has a different size.
History two_buffers(int steps) {
  History history;
  Tables& tables = history.trace().tables;
  tables.strings.emplace_back("Step");
  tables.marks.push_back(
      {.name = StringId{static_cast<std::uint32_t>(tables.strings.size() - 1)}, .phase = MarkPhase::end});
  for (int i = 0; i < steps; ++i) {
    const auto a = history.alloc(i % 2 == 0 ? 4_MiB : 6_MiB);
    const auto b = history.alloc(30_MiB);
    history.free(b);
    history.free(a);
    history.trace().events.push_back({.kind = EventKind::mark, .origin = OriginId{1}, .value = 1});
  }
  return history;
}

TEST(AddressStability, ComparesEachWholeStepWithTheOneBefore) {
  History history = two_buffers(4);
  const Prepared heap = history.prepared();
  // Rows 0..3 may belong to the program's startup.
  EXPECT_EQ(heap.step_ends, (std::vector<std::uint32_t>{4, 8, 12, 16}));
  // Steps 2 and 3: the large buffer stays in place, the other has no counterpart.
  EXPECT_EQ(measured(heap, "torch.native").address_stability, 0.5);
  EXPECT_FALSE(measured(heap, "bound.live").address_stability);
  EXPECT_FALSE(measured(two_buffers(2).prepared(), "torch.native").address_stability) << "nothing to compare";
}

TEST(AddressStability, ChangesNoOtherMetric) {
  const Prepared heap = two_buffers(20).prepared();
  const auto plain = replay(std::array{heap}, *parse_policies("torch.native"));
  const ReplayResult followed = measured(heap, "torch.native");
  EXPECT_EQ(plain->at(0).peak_reserved, followed.peak_reserved);
  EXPECT_EQ(plain->at(0).peak_allocated_event, followed.peak_allocated_event);
  EXPECT_EQ(plain->at(0).series.size(), followed.series.size());
  EXPECT_FALSE(plain->at(0).address_stability);
  EXPECT_FALSE(plain->at(0).free_memory);
}

TEST(PlacementMetrics, AreThereForEveryPolicyThatPlaces) {
  Trace trace = synthetic_trace({.events = 10'000, .live = 200, .streams = 2, .steps = 10});
  trace.tables.marks.back().phase = MarkPhase::instant;
  const Prepared heap = prepare(trace).at(0);
  for (const PolicyInfo& policy : testing::device_policies()) {
    SCOPED_TRACE(policy.name);
    const ReplayResult result = measured(heap, std::string(policy.name));
    const bool places = !policy.name.starts_with("bound.");
    ASSERT_EQ(result.free_memory.has_value(), places);
    ASSERT_EQ(result.address_stability.has_value(), places);
    if (!places) continue;
    EXPECT_GE(*result.address_stability, 0);
    EXPECT_LE(*result.address_stability, 1);
    const auto& unusable = result.free_memory->unusable;
    EXPECT_TRUE(std::ranges::is_sorted(unusable)) << "what is too small for 2 MiB is too small for 20 MiB";
    EXPECT_GE(unusable.front(), 0);
    EXPECT_LE(unusable.back(), 1);
    EXPECT_LE(result.free_memory->stranded_stream.bytes, result.peak_reserved);
    EXPECT_EQ(result.free_memory->stranded_pool.bytes, 0_B) << "there are no pools";
  }
}

class Marks : public ::testing::Test {
 protected:
  void mark(std::string_view name, MarkPhase phase) {
    Tables& tables = history_.trace().tables;
    tables.strings.emplace_back(name);
    tables.marks.push_back({.name = StringId{static_cast<std::uint32_t>(tables.strings.size() - 1)}, .phase = phase});
    history_.alloc(1_MiB);
    history_.trace().events.push_back(
        {.kind = EventKind::mark, .origin = OriginId{1}, .value = tables.marks.size() - 1});
  }
  Steps steps() { return find_steps(history_.trace(), HeapId{1}); }
  History history_;
};

TEST_F(Marks, ALoopsBodyComesBeforeWhatIsInIt) {
  for (const char* n : {"1", "2"}) {
    mark("Optimizer.step#SGD.step", MarkPhase::begin);
    mark("Optimizer.step#SGD.step", MarkPhase::end);
    mark(std::string("ProfilerStep#") + n, MarkPhase::begin);
    mark(std::string("ProfilerStep#") + n, MarkPhase::end);
  }
  EXPECT_EQ(steps().mark, "ProfilerStep");
  EXPECT_EQ(steps().ends, (std::vector<std::uint32_t>{7, 15}));
}

TEST_F(Marks, TheOptimizersStepWillDo) {
  mark("forward", MarkPhase::end);
  mark("Optimizer.step#SGD.step", MarkPhase::begin);
  mark("Optimizer.step#SGD.step", MarkPhase::end);
  EXPECT_EQ(steps().mark, "Optimizer.step#SGD.step");
  EXPECT_EQ(steps().ends, (std::vector<std::uint32_t>{5}));
}

TEST_F(Marks, InstantsCountWhereThereAreNoRanges) {
  mark("iteration", MarkPhase::instant);
  mark("iteration", MarkPhase::instant);
  EXPECT_EQ(steps().ends.size(), 2U);
}

TEST_F(Marks, OtherNamesAreNoSteps) {
  mark("stepping stone", MarkPhase::end);
  mark("nccl:all_reduce", MarkPhase::end);
  EXPECT_EQ(steps().mark, "");
  EXPECT_TRUE(steps().ends.empty());
}

}  // namespace
}  // namespace memreel
