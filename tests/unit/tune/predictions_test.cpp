// SPDX-License-Identifier: Apache-2.0
// A history recorded under one setting predicts what PyTorch reserved under another, for the same program: requests and
// their order are the same, so only the allocator differs.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "analyzer/replay/prepare.h"
#include "analyzer/replay/replay.h"
#include "formats/import/import.h"
#include "tests/histories.h"

namespace memreel {
namespace {

struct Prediction {
  const char* recorded;  // under default settings
  const char* other;     // under those of `policy`
  const char* policy;
};

class Predictions : public ::testing::TestWithParam<Prediction> {};

Bytes recorded_peak(const Trace& trace) {
  Bytes reserved, peak;
  for (std::size_t i = 0; i < trace.events.count(); ++i) {
    const EventKind kind = trace.events.kind(i);
    if (kind == EventKind::segment_alloc || kind == EventKind::segment_map) reserved += trace.events.size(i);
    if (kind == EventKind::segment_free || kind == EventKind::segment_unmap) reserved -= trace.events.size(i);
    peak = std::max(peak, reserved);
  }
  return peak;
}

TEST_P(Predictions, MeetWhatPyTorchReserved) {
  const auto recorded = test::history(GetParam().recorded), other = test::history(GetParam().other);
  if (!recorded || !other) GTEST_SKIP() << GetParam().other << " is not among " << test::histories_source();
  const auto trace = open_any(*recorded);
  const auto truth = open_any(*other);
  ASSERT_TRUE(trace && truth);
  const auto results = replay(prepare(*trace), *parse_policies(GetParam().policy));
  ASSERT_TRUE(results) << results.error().message();
  const auto real = static_cast<double>(recorded_peak(*truth).count);
  EXPECT_GT(real, 0);
  EXPECT_NEAR(static_cast<double>(results->at(0).peak_reserved.count), real, 0.01 * real);
}

INSTANTIATE_TEST_SUITE_P(
    PyTorch, Predictions,
    ::testing::Values(Prediction{"gpt_default", "gpt_expandable", "torch.native{expandable_segments=True}"},
                      Prediction{"gpt_default", "gpt_maxsplit", "torch.native{max_split_size_mb=128}"},
                      Prediction{"gpt_maxsplit", "gpt_default", "torch.native"},
                      Prediction{"gpt_expandable", "gpt_default", "torch.native"},
                      Prediction{"gpt_expandable", "gpt_maxsplit", "torch.native{max_split_size_mb=128}"},
                      // There are many blocks of one size: the peak depends on segment addresses.
                      Prediction{"convnet_s2_default", "convnet_s2_pow2", "torch.native{roundup_power2_divisions=4}"},
                      Prediction{"convnet_s2_pow2", "convnet_s2_default", "torch.native"}),
    [](const auto& test) { return std::string(test.param.recorded) + "_to_" + test.param.other; });

}  // namespace
}  // namespace memreel
