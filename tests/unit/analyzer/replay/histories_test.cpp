// SPDX-License-Identifier: Apache-2.0
// What PyTorch's own allocator did on a GPU, reproduced exactly to the last address.
#include <gtest/gtest.h>

#include <span>
#include <string>
#include <vector>

#include "analyzer/replay/memory_summary.h"
#include "analyzer/replay/prepare.h"
#include "analyzer/replay/recorded_device.h"
#include "analyzer/replay/replay.h"
#include "analyzer/replay/verify.h"
#include "formats/import/import.h"
#include "tests/histories.h"

namespace memreel {
namespace {

class RecordedHistory : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const auto file = test::history(GetParam());
    if (!file) GTEST_SKIP() << GetParam() << " is not among " << test::histories_source();
    auto trace = open_any(*file);
    ASSERT_TRUE(trace) << trace.error().message();
    trace_ = *std::move(trace);
  }
  Trace trace_;
};

TEST_P(RecordedHistory, EveryAddressAndEverySegmentIsRepeated) {
  const auto verifications = verify(trace_);
  ASSERT_TRUE(verifications) << verifications.error().message();
  for (const Verification& heap : *verifications) {
    EXPECT_TRUE(heap.exact()) << heap.note;
    EXPECT_GT(heap.allocations, 0U);
    EXPECT_EQ(heap.peak_reserved, heap.recorded_peak_reserved);
    if (heap.first_divergence)
      ADD_FAILURE() << "event " << heap.first_divergence->event << ": " << heap.first_divergence->expected << "; "
                    << heap.first_divergence->happened;
  }
}

TEST_P(RecordedHistory, AReplayThatKnowsOnlyTheSettingsAndTheLimitReservesTheSame) {
  const auto verifications = verify(trace_);
  ASSERT_TRUE(verifications);
  const std::vector<Prepared> heaps = prepare(trace_);
  ASSERT_EQ(heaps.size(), verifications->size());
  for (std::size_t i = 0; i < heaps.size(); ++i) {
    ReplayOptions options;
    const TorchSettings settings = TorchSettings::recorded(heaps[i].settings);
    if (const auto limit = recorded_capacity(trace_, heaps[i], settings))
      options.device = DeviceModel{.kind = DeviceModel::Kind::capacity, .capacity = *limit, .told = true};
    const auto results = replay(std::span(&heaps[i], 1), std::span(&verifications->at(i).policy, 1), options);
    ASSERT_TRUE(results) << results.error().message();
    EXPECT_EQ(results->at(0).peak_reserved, verifications->at(i).recorded_peak_reserved);
  }
}

TEST_P(RecordedHistory, SummaryAddsUp) {
  const auto summaries = memory_summaries(trace_);
  ASSERT_TRUE(summaries);
  for (const MemorySummary& summary : *summaries) {
    EXPECT_TRUE(summary.exact);
    for (const PoolStatistics* metric : {&summary.allocated_bytes, &summary.active_bytes, &summary.requested_bytes,
                                         &summary.reserved_bytes, &summary.inactive_split_bytes, &summary.allocations,
                                         &summary.active, &summary.segments, &summary.inactive_split}) {
      EXPECT_EQ(metric->all.current, metric->large.current + metric->small.current);
      EXPECT_EQ(metric->all.allocated, metric->large.allocated + metric->small.allocated);
      EXPECT_EQ(metric->all.current, metric->all.allocated - metric->all.freed);
      EXPECT_LE(metric->all.peak, metric->large.peak + metric->small.peak);
    }
    EXPECT_LE(summary.requested_bytes.all.current, summary.active_bytes.all.current);
    EXPECT_LE(summary.active_bytes.all.current + summary.inactive_split_bytes.all.current,
              summary.reserved_bytes.all.current);
  }
}

INSTANTIATE_TEST_SUITE_P(
    PyTorch, RecordedHistory,
    ::testing::Values("decode_default", "gpt_default", "streams_default", "oom_default", "threads", "leak", "random_2m",
                      "ddp_rank0", "ddp_rank1", "two_gpus", "mempool", "gpt_maxsplit", "gpt_pow2", "oom_gc",
                      "oom_maxsplit", "random_pow2_split", "resnet_gc", "gpt_expandable", "resnet_expandable",
                      "streams_expandable", "mempool_expandable", "oom_expandable", "graphs_default",
                      "graphs_expandable",
                      // Recorded by tests/gpu/record_matrix.py.
                      "captures_s63_default", "captures_s64_expandable", "capture_streams_s71_default",
                      "mempools_s82_default", "mempools_s83_expandable", "borrow_s91_expandable", "pressure_s2_gc",
                      "pressure_s7_expandable_maxsplit", "oom_s12_expandable_gc", "oom_s14_nonsplit",
                      "streams_s32_expandable_pow2", "convnet_s2_default", "convnet_s2_pow2",
                      // Recorded by tests/gpu/verify_random.py.
                      "mempools_s93428_segment", "mixed_s5952_maxsplit_gc", "mixed_s23877_maxsplit_gc",
                      "mixed_s70637_expandable", "mixed_s7792_expandable_gc", "peers_s80731_gc"),
    [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace memreel
