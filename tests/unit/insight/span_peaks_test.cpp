// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/insight/timeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/unit/sample_trace.h"

namespace memreel {
namespace {

using testing::TraceBuilder;

/// Marks as programs write them: begin and end by name.
class Ranges {
 public:
  explicit Ranges(TraceBuilder& build, std::uint32_t thread = 0)
      : build_(build), origin_(build.origin(HeapId{1})), next_(std::uint64_t{thread} << 52U) {
    build.trace().tables.origins.back().thread = ThreadId{thread};
  }

  void begin(std::string_view name) { mark(name, MarkPhase::begin); }
  void end(std::string_view name) { mark(name, MarkPhase::end); }
  AllocationId alloc(Bytes size) { return build_.alloc(origin_, {next_ += 0x100000000}, size); }

 private:
  void mark(std::string_view name, MarkPhase phase) {
    auto& marks = build_.trace().tables.marks;
    marks.push_back({.name = build_.string(name), .phase = phase});
    build_.push({.kind = EventKind::mark, .origin = origin_, .value = marks.size() - 1});
  }

  TraceBuilder& build_;
  OriginId origin_;
  std::uint64_t next_;
};

TEST(RangePeaks, AreThoseOfAnyTimeThatTheRangeIsOpen) {
  TraceBuilder build;
  Ranges program(build);
  const AllocationId weights = program.alloc(10_MiB);
  program.begin("step");
  program.begin("forward");
  const AllocationId kept = program.alloc(5_MiB);
  program.end("forward");
  program.begin("forward");
  build.free(program.alloc(20_MiB));
  program.end("forward");
  program.end("step");
  build.free(kept);
  program.begin("step");  // begins with less and never holds more
  build.free(weights);
  program.end("step");

  const std::vector<RangePeak> ranges = range_peaks(build.trace(), HeapId{1});
  ASSERT_EQ(ranges.size(), 2U);
  EXPECT_EQ(ranges[0].name, "step");
  EXPECT_EQ(ranges[0].count, 2U);
  EXPECT_EQ(ranges[0].peak.live, 35_MiB);
  EXPECT_EQ(ranges[0].rise, 25_MiB);
  EXPECT_EQ(ranges[1].name, "forward");
  EXPECT_EQ(ranges[1].parent, 0U);
  EXPECT_EQ(ranges[1].depth, 1U);
  EXPECT_EQ(ranges[1].count, 2U);
  EXPECT_EQ(ranges[1].peak.live, 35_MiB);
  EXPECT_EQ(ranges[1].rise, 20_MiB);
}

TEST(RangePeaks, EndsOfRangesThatBeganBeforeTheRecordingAreIgnoredAndOpenOnesEndWithIt) {
  TraceBuilder build;
  Ranges program(build);
  program.end("warm-up");
  program.begin("serve");
  program.alloc(3_MiB);
  const std::vector<RangePeak> ranges = range_peaks(build.trace(), HeapId{1});
  ASSERT_EQ(ranges.size(), 1U);
  EXPECT_EQ(ranges[0].name, "serve");
  EXPECT_EQ(ranges[0].peak.live, 3_MiB);
}

TEST(RangePeaks, RiseByWhatTheirThreadMadeAndThreadsWithoutRanges) {
  TraceBuilder build;
  Ranges here(build, 1), other(build, 2), backward(build, 3);
  here.begin("flux");
  other.begin("solve");
  other.alloc(40_MiB);
  backward.alloc(2_MiB);
  here.end("flux");
  other.end("solve");
  const std::vector<RangePeak> ranges = range_peaks(build.trace(), HeapId{1});
  ASSERT_EQ(ranges.size(), 2U);
  EXPECT_EQ(ranges[0].name, "flux");
  EXPECT_EQ(ranges[0].peak.live, 42_MiB);  // of the heap
  EXPECT_EQ(ranges[0].rise, 2_MiB);
  EXPECT_EQ(ranges[1].rise, 42_MiB);
}

TEST(RangePeaks, AreAsCountedEventByEvent) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    TraceBuilder build;
    Ranges program(build);
    std::vector<AllocationId> live;
    std::vector<Bytes> sizes;
    Bytes now, most;
    bool open = false;
    for (int i = 0; i < 60; ++i) {
      const auto dice = random() % 10;
      if (dice == 0 && open) program.end("only");
      if (dice == 0 && !open) most = std::max(most, now);
      if (dice == 0) {
        if (!open) program.begin("only");
        open = !open;
      } else if (dice < 6 || live.empty()) {
        const Bytes size{1 + random() % 1000};
        live.push_back(program.alloc(size));
        sizes.push_back(size);
        now += size;
      } else {
        build.free(live.back());
        now -= sizes.back();
        live.pop_back();
        sizes.pop_back();
      }
      if (open) most = std::max(most, now);
    }
    Bytes found;
    for (const RangePeak& range : range_peaks(build.trace(), HeapId{1})) found = std::max(found, range.peak.live);
    EXPECT_EQ(found, most) << round;
  }
}

TEST(PhasePeaks, AreByThePhaseThatAllocates) {
  TraceBuilder build;
  Ranges program(build);
  const AllocationId first = program.alloc(4_MiB);
  program.alloc(2_MiB);
  build.free(first);
  program.alloc(1_MiB);
  Categories categories;
  categories.phase = {Phase::forward, Phase::backward, Phase::forward};
  const std::vector<PhasePeak> peaks = phase_peaks(build.trace(), categories, HeapId{1});
  ASSERT_EQ(peaks.size(), 2U);
  EXPECT_EQ(peaks[0].phase, Phase::forward);
  EXPECT_EQ(peaks[0].peak.live, 4_MiB);
  EXPECT_EQ(peaks[1].phase, Phase::backward);
  EXPECT_EQ(peaks[1].peak.live, 6_MiB);
}

}  // namespace
}  // namespace memreel
