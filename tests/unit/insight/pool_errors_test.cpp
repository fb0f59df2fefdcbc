// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/insight/pool_errors.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "analyzer/analysis/history/lifetimes.h"
#include "formats/model/repeated_frees.h"
#include "tests/unit/sample_trace.h"

namespace memreel {
namespace {

/// A pool of the program's own with a segment of 1 MiB at 0x100000, and what the recorder makes of its calls.
class OwnPool {
 public:
  OwnPool() {
    build_.push({.kind = EventKind::pool_created, .origin = origin_});
    segment(EventKind::segment_alloc);
  }

  AllocationId alloc(std::uint64_t address, std::uint64_t size, std::uint32_t line) {
    return build_.alloc(origin_, {address}, Bytes{size}, at(line));
  }
  /// `line` 0: nobody called it.
  void free(AllocationId id, std::uint32_t line) {
    for (const EventKind kind : {EventKind::free_requested, EventKind::free_completed}) {
      Event event = build_.trace().events[build_.trace().events.begin_of(id)];
      event.kind = kind;
      event.stack = at(line);
      build_.push(event);
    }
  }
  /// The device is not done with it yet.
  void request_free(AllocationId id, std::uint32_t line) {
    Event event = build_.trace().events[build_.trace().events.begin_of(id)];
    event.kind = EventKind::free_requested;
    event.stack = at(line);
    build_.push(event);
  }
  void free_unknown(std::uint64_t address, std::uint32_t line) {
    build_.push({.kind = EventKind::free_requested, .origin = origin_, .stack = at(line), .address = {address}});
  }
  void segment(EventKind kind, std::uint32_t line = 1) {
    build_.push({.kind = kind, .origin = origin_, .stack = at(line), .address = {0x100000}, .size = Bytes{0x100000}});
  }
  void destroy(std::uint32_t line) {
    build_.push({.kind = EventKind::pool_destroyed, .origin = origin_, .stack = at(line)});
  }

  /// "double free x1 pool.c:9 pool.c:7", of each.
  std::vector<std::string> errors() {
    std::vector<std::string> texts;
    const Tables& tables = build_.trace().tables;
    for (const PoolError& error : pool_errors(build_.trace())) {
      std::string text = std::string(name_of(error.kind)) + " x" + std::to_string(error.count);
      for (const StackId stack : {error.stack, error.contradicts})
        if (stack != StackId::none) text += " " + std::to_string(tables[tables[stack].frame].line);
      texts.push_back(text);
    }
    return texts;
  }
  Trace& trace() { return build_.trace(); }

 private:
  StackId at(std::uint32_t line) {
    if (line == 0) return StackId::none;
    const auto [found, is_new] = stacks_.try_emplace(line, StackId::none);
    const std::string place = "call@pool.c:" + std::to_string(line);
    if (is_new) found->second = build_.stack({place});
    return found->second;
  }

  testing::TraceBuilder build_;
  OriginId origin_ = build_.origin(build_.heap("mine", Level::framework, 0));
  std::map<std::uint32_t, StackId> stacks_;
};

using Errors = std::vector<std::string>;

TEST(PoolErrors, AreFreesOfWhatIsNotThere) {
  OwnPool pool;
  const AllocationId block = pool.alloc(0x100000, 512, 5);
  pool.free(block, 7);
  pool.free_unknown(0x100000, 9);
  pool.free_unknown(0x100000, 9);
  pool.free_unknown(0x180000, 11);
  EXPECT_EQ(pool.errors(), (Errors{"double free x2 9 7", "invalid free x1 11"}));
  pool.trace().losses.began_late = true;
  EXPECT_EQ(pool.errors(), (Errors{"double free x2 9 7"})) << "it may be older than the recording";
}

TEST(PoolErrors, AFreeThatIsRequestedAgainFreesNothing) {
  OwnPool pool;
  const AllocationId block = pool.alloc(0x100000, 512, 5);
  const AllocationId other = pool.alloc(0x100200, 512, 5);
  for (int i = 0; i < 3; ++i) pool.request_free(block, 7);
  EXPECT_EQ(part_with_repeated_frees(pool.trace()), 2U);
  EXPECT_EQ(pool.errors(), (Errors{"double free x2 7 7"}));
  const HeapHistory before = heap_histories(pool.trace()).at(0);
  EXPECT_EQ(before.end_live, 512_B);
  EXPECT_EQ(before.end_live_allocations, 1U);
  pool.free(other, 9);
  EXPECT_EQ(part_with_repeated_frees(pool.trace()), 0U) << "only the first are left";
  EXPECT_EQ(heap_histories(pool.trace()).at(0).end_live, 0_B);
}

TEST(PoolErrors, AreBlocksWhereOthersAre) {
  OwnPool pool;
  const AllocationId first = pool.alloc(0x100000, 512, 5);
  pool.alloc(0x1001FF, 16, 6);
  pool.alloc(0x0FFFFF, 2, 7);
  pool.free(first, 0);  // as the recorder ends what is live at an address
  pool.alloc(0x100000, 512, 8);
  EXPECT_EQ(pool.errors(),
            (Errors{"overlap x1 6 5", "outside segments x1 7", "overlap x1 7 5", "overlap x1 8 5", "overlap x1 8 6"}));
}

TEST(PoolErrors, AreSegmentsThatAreInUse) {
  OwnPool pool;
  pool.alloc(0x100000, 512, 5);
  pool.alloc(0x110000, 512, 5);
  pool.free(pool.alloc(0x120000, 512, 6), 6);
  pool.segment(EventKind::segment_free, 9);
  pool.alloc(0x130000, 512, 7);
  EXPECT_EQ(pool.errors(), (Errors{"segment in use x2 9 5", "outside segments x1 7"}));
}

TEST(PoolErrors, AreUsesOfADestroyedPool) {
  OwnPool pool;
  const AllocationId left = pool.alloc(0x100000, 512, 5);
  pool.destroy(9);
  pool.free(left, 0);
  pool.segment(EventKind::segment_free, 0);
  EXPECT_EQ(pool.errors(), Errors{}) << "its own end is none";
  pool.free_unknown(0x100000, 11);
  EXPECT_EQ(pool.errors(), (Errors{"use after destroy x1 11 9"}));
}

TEST(PoolErrors, AreNoneInCorrectPrograms) {
  OwnPool pool;
  std::mt19937 chance(7);
  std::vector<AllocationId> live(256, AllocationId::none);
  for (int i = 0; i < 20'000; ++i) {
    const std::uint64_t slot = chance() % live.size();
    if (live[slot] == AllocationId::none) {
      live[slot] = pool.alloc(0x100000 + slot * 4096, 1 + chance() % 4096, 5);
    } else {
      pool.free(live[slot], 6);
      live[slot] = AllocationId::none;
    }
  }
  EXPECT_EQ(pool.errors(), Errors{});
}

TEST(PoolErrors, AddressesWithoutSegmentsMayBeAnyNumbers) {
  testing::TraceBuilder build;
  const OriginId origin = build.origin(build.heap("mine", Level::framework, 0));
  build.push({.kind = EventKind::pool_created, .origin = origin});
  for (std::uint64_t id = 1; id < 10; ++id) build.alloc(origin, {id}, 100_B);
  EXPECT_TRUE(pool_errors(build.trace()).empty());
}

TEST(PoolErrors, OtherHeapsAreNotJudged) {
  testing::TraceBuilder build;
  const OriginId origin = build.origin(HeapId{1});
  build.event(EventKind::segment_alloc, origin, {4096}, 100_B);
  build.alloc(origin, {1}, 100_B);
  build.event(EventKind::free_requested, origin, {77}, 0_B);
  EXPECT_TRUE(pool_errors(build.trace()).empty());
  EXPECT_TRUE(own_pools(build.trace()).empty());
}

}  // namespace
}  // namespace memreel
