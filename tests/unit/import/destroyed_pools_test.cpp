// SPDX-License-Identifier: Apache-2.0
// Pools destroyed before the snapshot: which segments must have been theirs.
#include "formats/import/torch/empty_cache.h"

#include <gtest/gtest.h>

#include "tests/unit/import/import_support.h"

namespace memreel::test {
namespace {

/// A history written call by call, with no segment left at its end.
class Program {
 public:
  void get(std::uint64_t address, std::uint64_t size) { add("segment_alloc", address, size); }
  void map(std::uint64_t address, std::uint64_t size) { add("segment_map", address, size); }
  void alloc(std::uint64_t address, std::uint64_t size) { add("alloc", address, size); }
  void request_free(std::uint64_t address, std::uint64_t size) { add("free_requested", address, size); }
  void complete_free(std::uint64_t address, std::uint64_t size) { add("free_completed", address, size); }
  void free(std::uint64_t address, std::uint64_t size) {
    request_free(address, size);
    complete_free(address, size);
  }
  void use(std::uint64_t address, std::uint64_t size) {
    alloc(address, size);
    free(address, size);
  }
  /// One release made by a call: by empty_cache, or by a pool's destruction.
  void release(std::uint64_t address, std::uint64_t size, const char* caller = "empty_cache",
               const char* action = "segment_free") {
    entries_.push_back(with_frames(entry(action, address, size, ++time_), {frame(caller, 1)}));
  }

  Trace trace() const {
    Result<Trace> trace = import_document(snapshot({}, entries_));
    EXPECT_TRUE(trace) << trace.error().message();
    return *std::move(trace);
  }

 private:
  void add(const char* action, std::uint64_t address, std::uint64_t size) {
    entries_.push_back(entry(action, address, size, ++time_));
  }
  std::vector<Document> entries_;
  std::int64_t time_ = 0;
};

/// The pool for which the first segment at an address was allocated.
const Pool& pool_of(const Trace& trace, std::uint64_t address) {
  for (std::size_t i = 0; i < trace.events.count(); ++i) {
    const EventKind kind = trace.events.kind(i);
    if ((kind == EventKind::segment_alloc || kind == EventKind::segment_map) &&
        trace.events.address(i) == Address{address})
      return trace.tables[trace.tables[trace.events.origin(i)].pool];
  }
  ADD_FAILURE() << "no segment there";
  return trace.tables.pools.at(0);
}

bool is_default(const Trace& trace, std::uint64_t address) { return pool_of(trace, address) == Pool{}; }

TEST(DestroyedPools, ASegmentThatWasNotNeededIsAnotherPools) {
  Program program;
  program.get(base, 20 * mib);
  program.use(base, 5 * mib);
  program.get(base + 64 * mib, 20 * mib);  // although 20 MiB were free
  program.use(base + 64 * mib, 6 * mib);
  program.release(base, 20 * mib);
  program.release(base + 64 * mib, 20 * mib);
  const Trace trace = program.trace();
  EXPECT_TRUE(is_default(trace, base));
  EXPECT_TRUE(pool_of(trace, base + 64 * mib).inferred);
  EXPECT_EQ(count(trace, EventKind::pool_end), 1U);
  EXPECT_EQ(count(trace, EventKind::empty_cache), 1U);
}

TEST(DestroyedPools, WhatBestFitExplainsIsTheDefaultPools) {
  Program program;
  program.get(base, 20 * mib);
  program.alloc(base, 15 * mib);
  program.get(base + 64 * mib, 20 * mib);  // 5 MiB are not enough
  program.alloc(base + 64 * mib, 6 * mib);
  program.use(base + 15 * mib, 3 * mib);
  program.free(base, 15 * mib);
  program.free(base + 64 * mib, 6 * mib);
  program.release(base, 20 * mib);
  program.release(base + 64 * mib, 20 * mib);
  const Trace trace = program.trace();
  EXPECT_TRUE(is_default(trace, base));
  EXPECT_TRUE(is_default(trace, base + 64 * mib));
  EXPECT_EQ(count(trace, EventKind::pool_end), 0U);
}

TEST(DestroyedPools, ABlockThatBestFitWouldNotTakeTellsPoolsApart) {
  Program program;
  program.get(base, 20 * mib);
  program.alloc(base, 15 * mib);
  program.get(base + 64 * mib, 20 * mib);
  program.alloc(base + 64 * mib, 6 * mib);
  program.use(base + 70 * mib, 3 * mib);  // from 14 MiB, although 5 MiB were free elsewhere
  program.free(base, 15 * mib);
  program.free(base + 64 * mib, 6 * mib);
  program.release(base, 20 * mib);
  program.release(base + 64 * mib, 20 * mib);
  EXPECT_FALSE(is_default(program.trace(), base + 64 * mib));
}

TEST(DestroyedPools, UnusedMemoryThatAnEmptiedCacheKeepsIsNotTheDefaultPools) {
  Program program;
  program.get(base, 20 * mib);
  program.use(base, 5 * mib);
  program.alloc(base, 20 * mib);
  program.get(base + 64 * mib, 20 * mib);
  program.use(base + 64 * mib, 6 * mib);
  program.free(base, 20 * mib);
  program.release(base, 20 * mib);
  program.get(base, 40 * mib);
  program.use(base, 40 * mib);
  program.release(base, 40 * mib);
  program.release(base + 64 * mib, 20 * mib);
  EXPECT_FALSE(is_default(program.trace(), base + 64 * mib));
}

TEST(DestroyedPools, TheDefaultPoolGivesBackFirst) {
  Program program;
  program.get(base, 2 * mib);
  program.use(base, 100);
  program.get(base + 64 * mib, 20 * mib);
  program.use(base + 64 * mib, 6 * mib);
  program.release(base, 2 * mib);
  program.release(base + 64 * mib, 20 * mib);  // large after small
  const Trace trace = program.trace();
  EXPECT_TRUE(is_default(trace, base));
  EXPECT_FALSE(is_default(trace, base + 64 * mib));
}

TEST(DestroyedPools, APoolThatEndsGivesBackAlone) {
  Program program;
  program.get(base, 20 * mib);
  program.use(base, 5 * mib);
  program.get(base + 32 * mib, 2 * mib);
  program.use(base + 32 * mib, 100);
  program.get(base + 64 * mib, 20 * mib);
  program.use(base + 64 * mib, 6 * mib);
  program.release(base + 32 * mib, 2 * mib, "__del__");
  program.release(base + 64 * mib, 20 * mib, "__del__");
  program.release(base, 20 * mib);
  const Trace trace = program.trace();
  EXPECT_TRUE(is_default(trace, base));
  EXPECT_EQ(pool_of(trace, base + 32 * mib), pool_of(trace, base + 64 * mib));
  EXPECT_TRUE(pool_of(trace, base + 64 * mib).inferred);
  const auto order = kinds(trace);
  EXPECT_EQ(std::vector(order.end() - 6, order.end()),
            (std::vector{EventKind::pool_end, EventKind::empty_cache, EventKind::segment_free, EventKind::segment_free,
                         EventKind::empty_cache, EventKind::segment_free}));
}

TEST(DestroyedPools, TwoRangesAtATimeAreOfTwoPools) {
  Program program;
  program.map(base, 20 * mib);
  program.alloc(base, 18 * mib);
  program.map(base + 1024 * mib, 20 * mib);
  program.use(base + 1024 * mib, 5 * mib);
  program.map(base + 20 * mib, 20 * mib);  // the same range
  program.use(base + 18 * mib, 5 * mib);
  program.free(base, 18 * mib);
  program.release(base, 40 * mib, "empty_cache", "segment_unmap");
  program.release(base + 1024 * mib, 20 * mib, "empty_cache", "segment_unmap");
  const Trace trace = program.trace();
  EXPECT_TRUE(is_default(trace, base));
  EXPECT_TRUE(is_default(trace, base + 20 * mib));
  EXPECT_TRUE(pool_of(trace, base + 1024 * mib).inferred);
}

TEST(DestroyedPools, NothingIsPutInAPoolThatIsOver) {
  Program program;
  program.get(base, 20 * mib);
  program.use(base, 5 * mib);
  program.get(base + 64 * mib, 20 * mib);  // although 20 MiB were free
  program.alloc(base + 64 * mib, 20 * mib);
  program.get(base + 128 * mib, 20 * mib);
  program.alloc(base + 128 * mib, 10 * mib);
  program.free(base + 64 * mib, 20 * mib);
  program.release(base + 64 * mib, 20 * mib, "__del__");
  program.use(base + 138 * mib, 5 * mib);
  program.free(base + 128 * mib, 10 * mib);
  program.release(base, 20 * mib);
  program.release(base + 128 * mib, 20 * mib);
  const Trace trace = program.trace();
  EXPECT_FALSE(is_default(trace, base + 64 * mib));
  EXPECT_FALSE(is_default(trace, base + 128 * mib));
  EXPECT_NE(pool_of(trace, base + 64 * mib), pool_of(trace, base + 128 * mib));
}

TEST(DestroyedPools, APoolThatEndsWaitsForWhatWasFreed) {
  Program program;
  program.get(base, 20 * mib);
  program.use(base, 5 * mib);
  for (const std::uint64_t place : {64U, 128U}) {
    program.get(base + place * mib, 20 * mib);  // although 20 MiB were free
    program.alloc(base + place * mib, 20 * mib);
  }
  program.free(base + 64 * mib, 20 * mib);
  program.request_free(base + 128 * mib, 20 * mib);
  program.release(base + 64 * mib, 20 * mib, "__del__");
  program.complete_free(base + 128 * mib, 20 * mib);
  program.release(base, 20 * mib);
  program.release(base + 128 * mib, 20 * mib);
  const Trace trace = program.trace();
  EXPECT_FALSE(is_default(trace, base + 128 * mib));
  EXPECT_NE(pool_of(trace, base + 64 * mib), pool_of(trace, base + 128 * mib));
}

TEST(DestroyedPools, TheDefaultPoolWaitsForAllThatWasFreed) {
  Program program;
  program.get(base, 20 * mib);
  program.alloc(base, 20 * mib);
  program.get(base + 64 * mib, 20 * mib);
  program.use(base + 64 * mib, 5 * mib);
  program.request_free(base, 20 * mib);
  program.release(base + 64 * mib, 20 * mib, "__del__");
  program.complete_free(base, 20 * mib);
  program.release(base, 20 * mib);
  const Trace trace = program.trace();
  EXPECT_TRUE(is_default(trace, base));
  EXPECT_FALSE(is_default(trace, base + 64 * mib));
}

TEST(DestroyedPools, AnotherPoolDoesNotGiveBackInBetween) {
  Program program;
  program.get(base, 20 * mib);
  program.use(base, 5 * mib);
  for (const std::uint64_t place : {128U, 192U, 256U}) {
    program.get(base + place * mib, 20 * mib);  // although 20 MiB were free
    program.alloc(base + place * mib, 20 * mib);
  }
  for (const std::uint64_t place : {128U, 192U, 256U}) program.free(base + place * mib, 20 * mib);
  program.release(base, 20 * mib);
  for (const std::uint64_t place : {192U, 128U, 256U}) program.release(base + place * mib, 20 * mib);
  const Trace trace = program.trace();
  EXPECT_NE(pool_of(trace, base + 128 * mib), pool_of(trace, base + 192 * mib));
  EXPECT_EQ(pool_of(trace, base + 256 * mib), pool_of(trace, base + 128 * mib));
}

TEST(DestroyedPools, PoolsThatEndOneAfterAnotherGiveBackAlone) {
  Program program;
  program.get(base, 20 * mib);
  program.use(base, 5 * mib);
  program.get(base + 64 * mib, 20 * mib);  // although 20 MiB were free
  program.use(base + 64 * mib, 6 * mib);
  program.get(base + 128 * mib, 2 * mib);
  program.use(base + 128 * mib, 100);
  program.get(base + 192 * mib, 20 * mib);
  program.use(base + 192 * mib, 6 * mib);
  for (const std::uint64_t place : {64U, 128U, 192U})
    program.release(base + place * mib, (place == 128 ? 2 : 20) * mib, "__del__");
  program.release(base, 20 * mib);
  const Trace trace = program.trace();
  EXPECT_TRUE(is_default(trace, base));
  const auto order = kinds(trace);
  EXPECT_EQ(std::vector(order.end() - 9, order.end()),
            (std::vector{EventKind::pool_end, EventKind::empty_cache, EventKind::segment_free, EventKind::pool_end,
                         EventKind::empty_cache, EventKind::segment_free, EventKind::segment_free,
                         EventKind::empty_cache, EventKind::segment_free}));
}

}  // namespace
}  // namespace memreel::test
