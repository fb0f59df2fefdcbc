// What PyTorch's own allocator did on a GPU, repeated to the last address.
#include <gtest/gtest.h>

#include <array>
#include <iostream>
#include <string>

#include "analyzer/replay/memory_summary.h"
#include "analyzer/replay/prepared.h"
#include "analyzer/replay/replay.h"
#include "analyzer/replay/verify.h"
#include "formats/import/import.h"
#include "tests/histories.h"

namespace memreel {
namespace {

struct Recorded {
  std::string name;
  bool default_settings = true;  // then torch.native without parameters is what was recorded
};

class RecordedHistory : public testing::TestWithParam<Recorded> {
 protected:
  void SetUp() override {
    const auto file = test::history(GetParam().name);
    if (!file) GTEST_SKIP() << GetParam().name << " is not among " << test::histories_source();
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

TEST_P(RecordedHistory, AReplayThatKnowsNoDecisionReservesTheSame) {
  if (!GetParam().default_settings) GTEST_SKIP() << "recorded with other settings than PyTorch's defaults";
  const auto verifications = verify(trace_);
  const auto results = replay(prepare(trace_), std::array{PolicySpec{.name = "torch.native"}});
  ASSERT_TRUE(verifications && results);
  ASSERT_EQ(verifications->size(), results->size());
  for (std::size_t i = 0; i < results->size(); ++i)
    EXPECT_EQ(results->at(i).peak_reserved, verifications->at(i).recorded_peak_reserved);
}

TEST_P(RecordedHistory, SummaryAddsUp) {
  const auto summaries = memory_summaries(trace_);
  ASSERT_TRUE(summaries);
  for (const MemorySummary& summary : *summaries) {
    EXPECT_TRUE(summary.exact);
    for (const PoolStatistics* figure : {&summary.allocated_bytes, &summary.active_bytes, &summary.requested_bytes,
                                         &summary.reserved_bytes, &summary.inactive_split_bytes, &summary.allocations,
                                         &summary.active, &summary.segments, &summary.inactive_split}) {
      EXPECT_EQ(figure->all.current, figure->large.current + figure->small.current);
      EXPECT_EQ(figure->all.allocated, figure->large.allocated + figure->small.allocated);
      EXPECT_EQ(figure->all.current, figure->all.allocated - figure->all.freed);
      EXPECT_LE(figure->all.peak, figure->large.peak + figure->small.peak);
    }
    EXPECT_LE(summary.requested_bytes.all.current, summary.active_bytes.all.current);
    EXPECT_LE(summary.active_bytes.all.current + summary.inactive_split_bytes.all.current,
              summary.reserved_bytes.all.current);
  }
}

INSTANTIATE_TEST_SUITE_P(PyTorch, RecordedHistory,
                         testing::Values(Recorded{"decode_default"}, Recorded{"gpt_default"},
                                         Recorded{"streams_default"}, Recorded{"oom_default"}, Recorded{"threads"},
                                         Recorded{"leak"}, Recorded{"random_2m"}, Recorded{"ddp_rank0"},
                                         Recorded{"ddp_rank1"}, Recorded{"two_gpus"}, Recorded{"mempool"},
                                         Recorded{"gpt_maxsplit", false}, Recorded{"gpt_pow2", false},
                                         Recorded{"oom_gc", false}, Recorded{"oom_maxsplit", false},
                                         Recorded{"random_pow2_split", false}, Recorded{"resnet_gc", false}),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace memreel
