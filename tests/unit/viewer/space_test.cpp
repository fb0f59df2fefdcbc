// SPDX-License-Identifier: Apache-2.0
#include "viewer/model/space.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/analyzer/history.h"
#include "tests/unit/viewer/opened.h"

namespace memreel::viewer {
namespace {

using testing::base;

/// A segment with blocks of two places and a hole between them, a larger one that is empty, and an older one that is
/// full.
class SpaceOf : public ::testing::Test {
 protected:
  SpaceOf() {
    const OriginId origin = build_.origin(torch_);
    const StackId keep = build_.stack({"keep@train.py:7"}), work = build_.stack({"work@train.py:9"});
    build_.event(EventKind::segment_alloc, origin, base + 256_MiB, 20_MiB);
    build_.alloc(origin, base + 256_MiB, 20_MiB, keep);
    build_.event(EventKind::segment_alloc, origin, base, 20_MiB);
    kept_ = build_.alloc(origin, base, 2_MiB, keep);
    worked_ = build_.alloc(origin, base + 8_MiB, 4_MiB, work);
    other_ = build_.alloc(origin, base + 12_MiB, 8_MiB, work);
    build_.event(EventKind::segment_alloc, origin, base + 512_MiB, 40_MiB);
    build_.event(EventKind::segment_alloc, origin, base + 768_MiB, 2_MiB);
    build_.alloc(origin, base + 768_MiB, 512_B, keep);
    instant_ = static_cast<std::uint32_t>(build_.trace().events.count());
    build_.free(worked_);
    build_.free(other_);
    opened_ = open(memory_file(written(build_.trace())));
    heap_ = heap_at(document(), torch_, instant_);
  }

  const Document& document() const { return opened_.last(); }
  Space at(Address address) { return *space_at(document(), heap_, address); }

  const HeapId torch_{1};
  testing::TraceBuilder build_;
  AllocationId kept_, worked_, other_;
  std::uint32_t instant_ = 0;
  Opened opened_;
  HeapAt heap_;
};

TEST_F(SpaceOf, ABlockIsItsSegmentAndWhoPinsItUntilWhen) {
  const Space space = at(base + 9_MiB);
  EXPECT_EQ(space.segment.address, base);
  EXPECT_FALSE(space.hole);
  EXPECT_EQ(space.unreleasable, 6_MiB);
  EXPECT_EQ(space.largest_hole.size, 6_MiB);
  ASSERT_EQ(space.blocks.size(), 3U);
  EXPECT_EQ(space.blocks[0].until, never);
  EXPECT_EQ(space.blocks[1].until, document().completed(index(worked_)));
  ASSERT_EQ(space.places.size(), 2U);
  EXPECT_EQ(space.places[0].site.label, "keep (train.py:7)") << "the last to go";
  EXPECT_EQ(space.places[0].until, never);
  EXPECT_EQ(space.places[1].site.blocks, 2U);
  EXPECT_EQ(space.places[1].site.bytes, 12_MiB);
  EXPECT_EQ(space.places[1].until, document().completed(index(other_)));
  EXPECT_EQ(space.places[1].largest, index(other_));
  EXPECT_EQ(space.empty_from, never);
}

TEST_F(SpaceOf, AHoleSaysTheLargestRequestThatItServes) {
  const Space space = at(base + 3_MiB);
  ASSERT_TRUE(space.hole);
  EXPECT_EQ(space.hole->address, base + 2_MiB);
  EXPECT_EQ(space.hole->size, 6_MiB);
  EXPECT_EQ(space.hole->largest_request, 6_MiB);
  const Space small = at(base + 769_MiB);
  EXPECT_TRUE(small.pool_stream.small);
  EXPECT_EQ(small.hole->size, 2_MiB - 512_B);
  EXPECT_EQ(small.hole->largest_request, 1_MiB) << "larger ones go to the large pools";
}

TEST_F(SpaceOf, AnEmptySegmentIsOneHoleThatNothingPins) {
  const Space space = at(base + 512_MiB);
  EXPECT_EQ(space.hole->size, 40_MiB);
  EXPECT_EQ(space.empty_from, 0U);
  EXPECT_TRUE(space.places.empty());
  EXPECT_EQ(space.unreleasable, 0_B);
}

TEST_F(SpaceOf, NothingIsOutsideSegments) { EXPECT_FALSE(space_at(document(), heap_, base + 100_MiB)); }

TEST_F(SpaceOf, SegmentsAreOrderedByAddressSizeOrAge) {
  const auto begins = [&](HeapOrder order) {
    std::vector<Bytes> at;
    for (const std::uint32_t row : ordered_segments(heap_, order)) at.push_back(heap_.segments[row].address - base);
    return at;
  };
  EXPECT_EQ(begins(HeapOrder::address), (std::vector{0_B, 256_MiB, 512_MiB, 768_MiB}));
  EXPECT_EQ(begins(HeapOrder::size), (std::vector{512_MiB, 0_B, 256_MiB, 768_MiB}));
  EXPECT_EQ(begins(HeapOrder::age), (std::vector{256_MiB, 0_B, 512_MiB, 768_MiB}));
}

TEST_F(SpaceOf, TheNextSegmentFollowsInTheOrderOnScreen) {
  Selection selection;
  selection.select(document(), index(kept_));
  select_segment(document(), heap_, HeapOrder::size, selection);
  EXPECT_EQ(selection.space, base) << "that of the selected allocation";
  EXPECT_FALSE(selection.allocation);
  select_segment(document(), heap_, HeapOrder::size, selection);
  EXPECT_EQ(selection.space, base + 256_MiB);
  select_segment(document(), heap_, HeapOrder::size, selection);
  select_segment(document(), heap_, HeapOrder::size, selection);
  EXPECT_EQ(selection.space, base + 512_MiB) << "the first after the last";
  select_hole(heap_, selection);
  EXPECT_EQ(selection.space, base + 512_MiB);
}

TEST(LargestRequest, IsWhatIsRoundedToTheWholeBlock) {
  TorchSettings settings;
  EXPECT_EQ(largest_request(settings, false, 6_MiB + 511_B), 6_MiB);
  EXPECT_EQ(largest_request(settings, false, 1_MiB), 0_B) << "the large pools serve nothing so small";
  EXPECT_EQ(largest_request(settings, false, 1_MiB + 512_B), 1_MiB + 512_B);
  EXPECT_EQ(largest_request(settings, true, 300_B), 0_B);
  EXPECT_EQ(largest_request(settings, true, 1000_B), 512_B);
  settings.divisions.fill(4);
  EXPECT_EQ(largest_request(settings, false, 11_MiB), 10_MiB) << "steps of 2 MiB between 8 and 16";
}

}  // namespace
}  // namespace memreel::viewer
