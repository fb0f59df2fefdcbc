// SPDX-License-Identifier: Apache-2.0
// Histories that begin in the middle of the program, derived from a real one.
#include <gtest/gtest.h>

#include <map>

#include "formats/model/live_set.h"
#include "tests/histories.h"
#include "tests/unit/import/history_document.h"
#include "tests/unit/import/import_support.h"

namespace memreel::test {
namespace {

/// Addresses of the blocks that the snapshot shows in use, and their requested sizes.
std::map<std::uint64_t, std::uint64_t> active_blocks(const Document& document) {
  std::map<std::uint64_t, std::uint64_t> blocks;
  for (const Document& segment : document["segments"])
    for (const Document& block : segment["blocks"])
      if (block["state"] != "inactive") blocks[block["address"]] = block["requested_size"];
  return blocks;
}

HeapSnapshot state_at_end(const Trace& trace) {
  LiveSet live(trace.tables);
  for (std::size_t i = 0; i < trace.events.count(); ++i) {
    Event event = trace.events[i];
    live.apply(event);
  }
  return live.snapshot();
}

class LateStart : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const auto file = history(GetParam());
    if (!file || file->extension() == ".reel")
      GTEST_SKIP() << "needs the pickle of " << GetParam() << ": " << histories_source();
    document_ = read_history(*file);
  }
  void drop_first(double share) {
    Document& entries = document_["device_traces"][0];
    Document kept = Document::array();
    for (auto i = static_cast<std::size_t>(share * static_cast<double>(entries.size())); i < entries.size(); ++i)
      kept.push_back(entries[i]);
    entries = std::move(kept);
  }

  Document document_;
};

TEST_P(LateStart, EndsWithTheBlocksOfTheSnapshot) {
  for (const double share : {0.0, 0.1, 0.5, 0.9, 1.0}) {
    SCOPED_TRACE(share);
    drop_first(share);
    const Result<Trace> trace = import_document(document_);
    ASSERT_TRUE(trace) << trace.error().message();
    std::map<std::uint64_t, std::uint64_t> live;
    for (const LiveAllocation& allocation : state_at_end(*trace).allocations)
      live[allocation.address.value] = allocation.size.count;
    EXPECT_EQ(live, active_blocks(document_));
    EXPECT_EQ(trace->losses.unmatched_frees, 0U);
    EXPECT_EQ(trace->losses.began_late, share > 0);
    EXPECT_EQ(trace->losses.preexisting_allocations > 0, share > 0);
  }
}

TEST_P(LateStart, HoldsAllSegmentsOfTheSnapshot) {
  drop_first(0.5);
  const Result<Trace> trace = import_document(document_);
  ASSERT_TRUE(trace) << trace.error().message();
  std::uint64_t reserved = 0;
  for (const LiveSegment& segment : state_at_end(*trace).segments) reserved += segment.size.count;
  std::uint64_t expected = 0;
  for (const Document& segment : document_["segments"]) expected += segment["total_size"].get<std::uint64_t>();
  EXPECT_EQ(reserved, expected);
}

using LateStartWithStacks = LateStart;

TEST_P(LateStartWithStacks, AFullRingIsToldFromALateRecording) {
  const auto overflowed = [&](std::size_t entries) {
    Document late = document_;
    Document& all = late["device_traces"][0];
    Document kept = Document::array();
    for (std::size_t i = all.size() - entries; i < all.size(); ++i) kept.push_back(all[i]);
    all = std::move(kept);
    const Result<Trace> trace = import_document(late);
    EXPECT_TRUE(trace) << (trace ? "" : trace.error().message());
    EXPECT_TRUE(trace->losses.began_late);
    return trace->losses.history_overflowed;
  };
  ASSERT_GT(document_["device_traces"][0].size(), 3'501U);
  EXPECT_TRUE(overflowed(2'000)) << "a number that someone would ask for";
  EXPECT_TRUE(overflowed(1'024));
  EXPECT_FALSE(overflowed(3'501)) << "that nobody would";
  // A round number that a loop may also make, while blocks with stacks show that they were recorded before.
  EXPECT_TRUE(overflowed(3'500));
  for (Document& segment : document_["segments"])
    for (Document& block : segment["blocks"]) block["frames"] = Document::array();
  EXPECT_FALSE(overflowed(3'500));
  EXPECT_TRUE(overflowed(2'000));
}

INSTANTIATE_TEST_SUITE_P(All, LateStartWithStacks, ::testing::Values("leak"));
INSTANTIATE_TEST_SUITE_P(All, LateStart,
                         ::testing::Values("leak", "mempool", "mempool_expandable", "oom_default",
                                           "streams_expandable"));

}  // namespace
}  // namespace memreel::test
