// SPDX-License-Identifier: Apache-2.0
// Frees that were lost with other events.
#include "formats/model/lost_frees.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "formats/model/live_set.h"

namespace memreel {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// Origin 1 is of a pool that sees frees complete, origin 2 of one that doesn't, origin 3 of memory made by
/// cuMemCreate.
Tables three_origins() {
  Tables tables;
  tables.strings.emplace_back("physical");
  const StringId physical{static_cast<std::uint32_t>(tables.strings.size() - 1)};
  tables.heaps.push_back({.level = Level::framework, .observes_completion = true});
  tables.heaps.push_back({.level = Level::driver, .observes_completion = false});
  tables.pools.push_back({.name = physical});
  const PoolId pool{static_cast<std::uint32_t>(tables.pools.size() - 1)};
  tables.origins.push_back({.heap = HeapId{1}});
  tables.origins.push_back({.heap = HeapId{2}});
  tables.origins.push_back({.heap = HeapId{2}, .pool = pool});
  return tables;
}

class LostFreesTest : public ::testing::Test {
 protected:
  /// The kinds of the events that this one became.
  std::vector<EventKind> follow(const Event& event) {
    const std::size_t before = all_.size();
    frees_.follow(event, all_);
    std::vector<EventKind> kinds;
    for (std::size_t i = before; i < all_.size(); ++i) kinds.push_back(all_[i].kind);
    return kinds;
  }
  std::vector<EventKind> alloc(std::uint32_t id, std::uint64_t address, std::uint64_t size, std::uint32_t origin = 1) {
    return follow({.kind = EventKind::alloc,
                   .origin = OriginId{origin},
                   .allocation = AllocationId{id},
                   .address = {address},
                   .size = {size}});
  }
  std::vector<EventKind> free(EventKind kind, std::uint32_t id, std::uint32_t origin = 1) {
    return follow({.kind = kind, .origin = OriginId{origin}, .allocation = AllocationId{id}});
  }
  std::vector<EventKind> segment(EventKind kind, std::uint64_t address, std::uint64_t size) {
    return follow({.kind = kind, .origin = OriginId{1}, .address = {address}, .size = {size}});
  }

  Tables tables_ = three_origins();
  LostFrees frees_{tables_};
  std::vector<Event> all_;
};

constexpr EventKind made = EventKind::alloc, requested = EventKind::free_requested,
                    completed = EventKind::free_completed, taken = EventKind::segment_alloc,
                    returned = EventKind::segment_free, mapped = EventKind::segment_map,
                    unmapped = EventKind::segment_unmap;

TEST_F(LostFreesTest, MemoryThatIsHandedOutAgainWasFreedBefore) {
  alloc(0, 512, 512);
  alloc(1, 1024, 512);
  alloc(2, 2048, 512);
  EXPECT_THAT(alloc(3, 768, 300), ElementsAre(requested, completed, requested, completed, made)) << "it overlaps two";
  EXPECT_EQ(all_[3].allocation, AllocationId{0});
  EXPECT_EQ(all_[3].size, 512_B);
  EXPECT_THAT(free(requested, 1), IsEmpty()) << "an added free stands for it";
  EXPECT_THAT(free(requested, 2), ElementsAre(requested));
  EXPECT_THAT(alloc(4, 2048, 512), ElementsAre(completed, made)) << "only its completion was lost";
}

TEST_F(LostFreesTest, WhatIsWholeStaysAsItIs) {
  alloc(0, 512, 512);
  EXPECT_THAT(free(requested, 0), ElementsAre(requested));
  EXPECT_THAT(free(completed, 0), ElementsAre(completed));
  EXPECT_THAT(alloc(1, 512, 512), ElementsAre(made));
  EXPECT_THAT(alloc(2, 512, 512, 2), ElementsAre(made)) << "in another heap";
  EXPECT_THAT(free(requested, 2, 2), ElementsAre(requested));
  EXPECT_THAT(alloc(3, 512, 512, 2), ElementsAre(made));
  EXPECT_THAT(alloc(4, 513, 1 << 20U, 3), ElementsAre(made)) << "a handle is no address";
  EXPECT_THAT(alloc(5, 514, 1 << 20U, 3), ElementsAre(made));
  EXPECT_THAT(alloc(6, 514, 1 << 20U, 3), ElementsAre(requested, made));
}

TEST_F(LostFreesTest, ACompletionSaysThatTheFreeWasRequested) {
  alloc(0, 512, 512);
  EXPECT_THAT(free(completed, 0), ElementsAre(requested, completed));
}

TEST_F(LostFreesTest, WhatAHeapGivesBackHoldsNothing) {
  segment(taken, 4096, 4096);
  alloc(0, 4096, 512);
  alloc(1, 1 << 20U, 512);
  EXPECT_THAT(segment(returned, 4096, 4096), ElementsAre(requested, completed, returned));
  segment(taken, 4096, 4096);
  alloc(2, 4096, 512);
  EXPECT_THAT(segment(taken, 6144, 4096), ElementsAre(requested, completed, returned, taken))
      << "so the older segment was returned";
  EXPECT_EQ(all_[all_.size() - 2].size, 4096_B);
}

TEST_F(LostFreesTest, WhatIsHandedOutIsReserved) {
  alloc(0, 512, 512);
  EXPECT_THAT(segment(taken, 4096, 4096), ElementsAre(mapped, taken)) << "the segment of the first was lost";
  EXPECT_THAT(alloc(1, 4096, 4096), ElementsAre(made));
  EXPECT_THAT(alloc(2, 512, 1024), ElementsAre(requested, completed, mapped, made));
  EXPECT_EQ(all_[all_.size() - 2].address, Address{1024});
  EXPECT_THAT(segment(returned, 0, 4096), ElementsAre(mapped, mapped, requested, completed, returned));
  EXPECT_THAT(alloc(3, 512, 512, 2), ElementsAre(made)) << "a driver reserves nothing";
}

TEST_F(LostFreesTest, MappedMemoryGoesPieceByPiece) {
  segment(mapped, 4096, 8192);
  alloc(0, 4096, 512);
  alloc(1, 8192, 512);
  EXPECT_THAT(segment(mapped, 8192, 4096), ElementsAre(requested, completed, unmapped, mapped));
  EXPECT_EQ(all_[all_.size() - 2].address, Address{8192});
  EXPECT_EQ(all_[all_.size() - 2].size, 4096_B);
  EXPECT_THAT(free(requested, 0), ElementsAre(requested));
}

/// A pool that serves requests from the lowest place that fits.
TEST(LostFrees, NoTwoAllocationsOverlapWhateverIsLost) {
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    Trace trace{.tables = three_origins()};
    std::map<std::uint64_t, std::pair<std::uint64_t, AllocationId>> live;
    for (std::uint32_t i = 0; i < 2'000; ++i) {
      const bool is_lost = random() % 4 == 0;
      if (random() % 2 == 0 || live.empty()) {
        const std::uint64_t size = 256 * (1 + random() % 8);
        std::uint64_t at = 256;
        for (const auto& [begin, block] : live) {
          if (begin >= at + size) break;
          at = begin + block.first;
        }
        AllocationId id = AllocationId::none;
        if (!is_lost) {
          id = AllocationId(trace.events.allocation_count());
          trace.events.push_back(
              {.kind = EventKind::alloc, .origin = OriginId{2}, .allocation = id, .address = {at}, .size = {size}});
        }
        live[at] = {size, id};
      } else {
        const auto gone = std::next(live.begin(), static_cast<std::ptrdiff_t>(random() % live.size()));
        if (!is_lost && gone->second.second != AllocationId::none)
          trace.events.push_back(
              {.kind = EventKind::free_requested, .origin = OriginId{2}, .allocation = gone->second.second});
        live.erase(gone);
      }
    }
    trace.losses.ring_full = 1;
    EXPECT_GT(add_lost_frees(trace), 0U);
    EXPECT_EQ(add_lost_frees(trace), 0U) << "they are there now";
    LiveSet set(trace.tables);
    for (std::uint32_t i = 0; i < trace.events.count(); ++i) {
      Event event = trace.events[i];
      set.apply(event);
      if (i % 64 != 0) continue;
      std::vector<LiveAllocation> blocks = set.snapshot().allocations;
      std::ranges::sort(blocks, {}, &LiveAllocation::address);
      for (std::size_t b = 1; b < blocks.size(); ++b)
        ASSERT_LE(blocks[b - 1].address + blocks[b - 1].size, blocks[b].address);
    }
  }
}

TEST(LostFrees, ATraceThatLacksNothingIsNotLookedAt) {
  Trace trace{.tables = three_origins()};
  for (std::uint32_t i = 0; i < 2; ++i)
    trace.events.push_back({.kind = EventKind::alloc,
                            .origin = OriginId{1},
                            .allocation = AllocationId{i},
                            .address = {512},
                            .size = {512}});
  EXPECT_EQ(add_lost_frees(trace), 0U);
  trace.read.missing_events = 1;
  EXPECT_EQ(add_lost_frees(trace), 2U);
}

}  // namespace
}  // namespace memreel
