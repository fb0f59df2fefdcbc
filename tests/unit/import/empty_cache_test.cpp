// SPDX-License-Identifier: Apache-2.0
// Which releases the program requested: empty_cache() leaves no record of its own.
#include <gtest/gtest.h>

#include "tests/histories.h"
#include "tests/unit/import/history_document.h"
#include "tests/unit/import/import_support.h"

namespace memreel::test {
namespace {

std::size_t calls(const std::vector<Document>& entries, const Document& settings = Document::object()) {
  Document document = snapshot({}, entries);
  document["allocator_settings"] = settings;
  const Result<Trace> trace = import_document(document);
  EXPECT_TRUE(trace) << trace.error().message();
  return trace ? count(*trace, EventKind::empty_cache) : 0;
}

/// A segment of `size` that an allocation used and freed.
std::vector<Document> used_segment(std::uint64_t address, std::uint64_t size) {
  return {entry("segment_alloc", address, size, 1), entry("alloc", address, size, 2),
          entry("free_requested", address, size, 3), entry("free_completed", address, size, 3)};
}

std::vector<Document> operator+(std::vector<Document> a, const std::vector<Document>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST(EmptyCache, AReleaseThatNoMallocFollowsIsACall) {
  const auto released = used_segment(base, 30 * mib) + std::vector{entry("segment_free", base, 30 * mib, 4)};
  EXPECT_EQ(calls(released), 1U);
  EXPECT_EQ(calls(released + used_segment(base + 64 * mib, 40 * mib)), 0U) << "it made room for a larger segment";
  Document oom = entry("oom", 0, 40 * mib, 5);
  oom["device_free"] = 0;
  EXPECT_EQ(calls(released + std::vector{oom}), 0U);
}

TEST(EmptyCache, StandsInFrontOfTheFirstRelease) {
  const auto entries =
      used_segment(base, 30 * mib) + used_segment(base + 64 * mib, 30 * mib) +
      std::vector{entry("segment_free", base, 30 * mib, 4), entry("segment_free", base + 64 * mib, 30 * mib, 5)};
  const Result<Trace> trace = import_document(snapshot({}, entries));
  ASSERT_TRUE(trace) << trace.error().message();
  const auto order = kinds(*trace);
  EXPECT_EQ(std::vector(order.end() - 3, order.end()),
            (std::vector{EventKind::empty_cache, EventKind::segment_free, EventKind::segment_free}));
}

TEST(EmptyCache, FramesTell) {
  const auto called = std::vector{with_frames(entry("segment_free", base, 30 * mib, 4), {frame("empty_cache", 224)})};
  const auto other = std::vector{with_frames(entry("segment_alloc", base, 60 * mib, 5), {frame("forward", 3)})};
  EXPECT_EQ(calls(used_segment(base, 30 * mib) + called + other), 1U);
  // A different call's stack is a different call, whatever its name.
  const auto native = std::vector{with_frames(entry("segment_free", base, 30 * mib, 4), {frame("_conv_forward", 548)})};
  EXPECT_EQ(calls(used_segment(base, 30 * mib) + native + other), 1U);
}

TEST(EmptyCache, AMallocWouldHaveUsedWhatFits) {
  // 30 MiB are released, and the very next malloc needs 25: it can't be what released them.
  const auto entries = used_segment(base, 30 * mib) + std::vector{entry("segment_free", base, 30 * mib, 4),
                                                                  entry("segment_alloc", base, 26 * mib, 5),
                                                                  entry("alloc", base, 25 * mib, 6)};
  EXPECT_EQ(calls(entries), 1U);
  // Unless it may not use them: 30 MiB is an oversize block for a smaller request.
  EXPECT_EQ(calls(entries, {{"max_split_size", 28 * mib}}), 0U);
}

TEST(EmptyCache, AReleaseThatWasNotNeededIsACall) {
  // The device held 100 MiB at its peak, so a 40 MiB segment on top of 30 had room.
  const auto peak = used_segment(base + 512 * mib, 100 * mib) +
                    std::vector{entry("segment_free", base + 512 * mib, 100 * mib, 3), entry("snapshot", 0, 0, 3)};
  const auto later = used_segment(base, 30 * mib) + std::vector{entry("segment_free", base, 30 * mib, 4),
                                                                entry("segment_alloc", base, 40 * mib, 5),
                                                                entry("alloc", base, 40 * mib, 6)};
  const auto marker = used_segment(base + 1024 * mib, 2 * mib);
  EXPECT_EQ(calls(marker + later), 0U);
  Document between = entry("alloc", base + 1024 * mib, 100, 3);
  EXPECT_EQ(calls(marker + peak + std::vector{between} + later), 2U);
  // Garbage collection releases without need, but only above its threshold. It keeps recently used blocks, which
  // empty_cache() would not, or there is a limit, as a failed request shows.
  const auto left = used_segment(base + 2048 * mib, 22 * mib);
  const std::vector failed{entry("oom", 0, 90 * mib, 9)};
  const auto collected = [&](const auto& history, double threshold) {
    return calls(history, {{"garbage_collection_threshold", threshold}});
  };
  EXPECT_EQ(collected(marker + peak + std::vector{between} + left + later, 0.2), 1U);
  EXPECT_EQ(collected(marker + peak + std::vector{between} + left + later, 0.9), 2U);
  EXPECT_EQ(collected(marker + peak + std::vector{between} + later + failed, 0.2), 1U);
  EXPECT_EQ(collected(marker + peak + std::vector{between} + later, 0.2), 2U);
}

std::vector<Document> freed(std::uint64_t address, std::uint64_t size) {
  return {entry("free_requested", address, size, 5), entry("free_completed", address, size, 5)};
}

std::vector<Document> emptied(std::uint64_t address, std::uint64_t size) {
  return {with_frames(entry("segment_unmap", address, size, 6), {frame("empty_cache", 224)})};
}

std::vector<Document> mapped(std::uint64_t address, std::uint64_t size, std::uint64_t requested, int stream) {
  std::vector<Document> entries{entry("segment_map", address, size, 1), entry("alloc", address, requested, 2)};
  for (Document& each : entries) each["stream"] = stream;
  return entries;
}

TEST(EmptyCache, WhatIsUnmappedMayBeLessThanItsBlockWas) {
  // 38.5 MiB are free, too many for a 3 MiB request; the 20 of them that form a whole run can be unmapped.
  constexpr std::uint64_t half = mib / 2;
  const auto entries =
      mapped(base, 80 * mib, 40 * mib, 0) +
      std::vector{entry("alloc", base + 40 * mib, 3 * half, 3), entry("alloc", base + 83 * half, 77 * half, 3)} +
      freed(base, 40 * mib) + emptied(base, 40 * mib) + mapped(base + 1024 * mib, 40 * mib, 40 * mib, 7) +
      freed(base + 83 * half, 77 * half) + std::vector{entry("segment_unmap", base + 60 * mib, 20 * mib, 7)} +
      mapped(base, 20 * mib, 3 * mib, 0);
  EXPECT_EQ(calls(entries, {{"expandable_segments", true}, {"max_split_size", 32 * mib}}), 1U);
  EXPECT_EQ(calls(entries, {{"expandable_segments", true}, {"max_split_size", 64 * mib}}), 2U);
}

TEST(EmptyCache, ARequestMayNeedNothingButTheRelease) {
  // Of 66.5 MiB, too many for an 8 MiB request, the first 28.5 stay when whole runs are unmapped: enough, and the
  // lowest.
  constexpr std::uint64_t half = mib / 2;
  const std::uint64_t begin = base + 23 * half;
  const auto entries = mapped(base, 80 * mib, 23 * half, 0) + std::vector{entry("alloc", begin, 133 * half, 3)} +
                       std::vector{entry("alloc", begin + 133 * half, 2 * mib, 3)} + freed(begin, 133 * half) +
                       std::vector{entry("segment_unmap", base + 40 * mib, 20 * mib, 7)} +
                       std::vector{entry("alloc", begin, 8 * mib, 8)};
  EXPECT_EQ(calls(entries, {{"expandable_segments", true}, {"max_split_size", 64 * mib}}), 0U);
  EXPECT_EQ(calls(entries, {{"expandable_segments", true}}), 1U);
}

TEST(EmptyCache, MoreMayBeMappedThanTheLimitAllowedToAskFor) {
  // 33 MiB need 40 in runs of 20, but only 34 count against the limit. So the limit may be below 38.
  const auto before = mapped(base, 40 * mib, 33 * mib, 0) + freed(base, 33 * mib) + emptied(base, 40 * mib);
  const auto after = mapped(base, 20 * mib, 12 * mib, 0) + freed(base, 12 * mib) +
                     std::vector{entry("segment_unmap", base, 20 * mib, 7)};
  EXPECT_EQ(calls(before + after + mapped(base + 1024 * mib, 20 * mib, 18 * mib, 7), {{"expandable_segments", true}}),
            1U);
  EXPECT_EQ(calls(before + after + mapped(base + 1024 * mib, 20 * mib, 14 * mib, 7), {{"expandable_segments", true}}),
            2U);
}

struct Expected {
  const char* history;
  std::size_t calls;
};

class EmptyCacheInHistories : public ::testing::TestWithParam<Expected> {};

TEST_P(EmptyCacheInHistories, AreFound) {
  const auto file = history(GetParam().history);
  if (!file || file->extension() == ".reel")
    GTEST_SKIP() << "needs the pickle of " << GetParam().history << ": " << histories_source();
  const Result<Trace> trace = open_any(*file);
  ASSERT_TRUE(trace) << trace.error().message();
  EXPECT_EQ(count(*trace, EventKind::empty_cache), GetParam().calls);
}

TEST_P(EmptyCacheInHistories, AreFoundWithoutFrames) {
  const auto file = history(GetParam().history);
  if (!file || file->extension() == ".reel")
    GTEST_SKIP() << "needs the pickle of " << GetParam().history << ": " << histories_source();
  Document document = read_history(*file);
  for (Document& e : document["device_traces"][0]) e["frames"] = Document::array();
  const Result<Trace> trace = import_document(document);
  ASSERT_TRUE(trace) << trace.error().message();
  EXPECT_EQ(count(*trace, EventKind::empty_cache), GetParam().calls);
}

INSTANTIATE_TEST_SUITE_P(All, EmptyCacheInHistories,
                         ::testing::Values(Expected{"gpt_maxsplit", 0}, Expected{"graphs_default", 2},
                                           Expected{"graphs_expandable", 2}, Expected{"mempool", 1},
                                           Expected{"mempool_expandable", 1}, Expected{"oom_default", 0},
                                           Expected{"oom_expandable", 0}, Expected{"oom_gc", 0},
                                           Expected{"oom_maxsplit", 0}, Expected{"random_pow2_split", 3},
                                           Expected{"resnet_expandable", 814}, Expected{"resnet_gc", 817}),
                         [](const auto& test) { return test.param.history; });

}  // namespace
}  // namespace memreel::test
