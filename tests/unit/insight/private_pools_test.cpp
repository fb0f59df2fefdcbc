// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/insight/private_pools.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "tests/histories.h"
#include "tests/unit/sample_trace.h"

namespace memreel {
namespace {

using testing::TraceBuilder;

/// A program with a graph pool; its addresses do not matter.
class Graphs {
 public:
  Graphs() {
    build_.trace().tables.pools.push_back({.key_high = 0, .key_low = 1});
    normal_ = build_.origin(HeapId{1});
    pool_ = of_thread(1);
  }

  /// The private pool, with a request from another thread.
  OriginId of_thread(std::uint32_t thread) {
    const OriginId origin = build_.origin(HeapId{1}, 7, PoolId{1});
    build_.trace().tables.origins.back().thread = ThreadId{thread};
    build_.trace().tables.origins[index(normal_)].thread = ThreadId{1};
    return origin;
  }

  void reserve(Bytes size) { build_.event(EventKind::segment_alloc, pool_, next(), size); }
  void release(Bytes size) { build_.event(EventKind::segment_free, pool_, {}, size); }
  AllocationId capture(Bytes size, StackId stack = StackId::none) { return build_.alloc(pool_, next(), size, stack); }
  AllocationId capture_on(OriginId origin, Bytes size) { return build_.alloc(origin, next(), size); }
  void elsewhere(StackId stack = StackId::none) { build_.alloc(normal_, next(), 1_KiB, stack); }
  void free(AllocationId id) { build_.free(id); }
  StackId begins_capture() {
    return build_.stack(
        {"capture_begin@/opt/torch/cuda/graphs.py:115", "__enter__@/opt/torch/cuda/graphs.py:257", "main@run.py:9"});
  }
  StackId ends_capture() {
    return build_.stack(
        {"capture_end@/opt/torch/cuda/graphs.py:130", "__exit__@/opt/torch/cuda/graphs.py:270", "main@run.py:9"});
  }
  void empties_cache_before_capture() {
    build_.event(
        EventKind::segment_free, normal_, {}, 2_MiB,
        build_.stack({"empty_cache@/opt/torch/cuda/memory.py:224", "__enter__@/opt/torch/cuda/graphs.py:249"}));
  }

  PrivatePool only_pool() {
    const std::vector<HeapPools> heaps = private_pools(build_.trace(), find_activity(build_.trace()));
    EXPECT_EQ(heaps.size(), 1U);
    if (heaps.empty()) return {};
    EXPECT_EQ(heaps.front().pools.size(), 1U);
    return heaps.front().pools.front();
  }

 private:
  Address next() { return {next_ += 0x100000000}; }

  TraceBuilder build_;
  OriginId normal_, pool_;
  std::uint64_t next_ = 0;
};

TEST(PrivatePools, SayWhatEachGraphAddedToThePoolThatTheyShare) {
  Graphs program;
  program.elsewhere();
  // The first needs 30 MiB and keeps an output of 2.
  program.reserve(20_MiB);
  const AllocationId scratch = program.capture(18_MiB);
  program.reserve(20_MiB);
  const AllocationId more = program.capture(10_MiB);
  program.free(scratch);
  program.free(more);
  program.capture(2_MiB);
  program.elsewhere();
  // The second finds most of what it needs.
  const AllocationId again = program.capture(18_MiB);
  program.reserve(2_MiB);
  program.capture(1_MiB);
  program.free(again);
  program.elsewhere();

  const PrivatePool pool = program.only_pool();
  ASSERT_EQ(pool.uses.size(), 2U);
  EXPECT_EQ(pool.uses[0].grew, 40_MiB);
  EXPECT_EQ(pool.uses[0].used, 28_MiB);
  EXPECT_EQ(pool.uses[0].kept, 2_MiB);
  EXPECT_EQ(pool.uses[0].allocations, 3U);
  EXPECT_EQ(pool.uses[1].grew, 2_MiB) << "the marginal cost of the second graph";
  EXPECT_EQ(pool.uses[1].used, 19_MiB);
  EXPECT_EQ(pool.uses[1].kept, 1_MiB);
  EXPECT_EQ(pool.reserved, 42_MiB);
  EXPECT_EQ(pool.live, 3_MiB);
  EXPECT_EQ(pool.reusable(), 39_MiB);
  EXPECT_EQ(pool.peak_live, 28_MiB);
  EXPECT_EQ(pool.shared(), 19_MiB) << "28 and 19 MiB apart, 28 together";
  EXPECT_FALSE(pool.has_captures) << "no stack says so: it may be a MemPool";
}

TEST(PrivatePools, CapturesInARowAreToldApartByWhatBeginsThem) {
  Graphs program;
  for (int graph = 0; graph < 3; ++graph) {
    const StackId begins = program.begins_capture();
    program.capture(512_B, begins);
    program.capture(512_B, begins);  // still the start of the same one
    program.capture(4_MiB);
    program.capture(1_KiB, program.ends_capture());
  }
  const PrivatePool pool = program.only_pool();
  ASSERT_EQ(pool.uses.size(), 3U);
  for (const PoolUse& use : pool.uses) EXPECT_EQ(use.allocations, 4U);
  EXPECT_TRUE(pool.has_captures);
}

TEST(PrivatePools, ACaptureIsKnownByTheCacheThatIsEmptiedBeforeIt) {
  Graphs program;
  program.empties_cache_before_capture();
  program.capture(4_MiB);
  EXPECT_TRUE(program.only_pool().has_captures);

  Graphs other;
  other.empties_cache_before_capture();
  other.elsewhere();
  other.capture(4_MiB);
  EXPECT_FALSE(other.only_pool().has_captures) << "something else came between";
}

TEST(PrivatePools, ACaptureIsKnownByTheSeedsThatItMakesElsewhere) {
  Graphs program;
  for (int graph = 0; graph < 2; ++graph) {
    program.elsewhere(program.begins_capture());
    program.capture(4_MiB);
  }
  const PrivatePool pool = program.only_pool();
  EXPECT_TRUE(pool.has_captures);
  EXPECT_EQ(pool.uses.size(), 2U);
}

TEST(PrivatePools, WhatOtherThreadsRequestMeanwhileIsOfTheSameCapture) {
  Graphs program;
  const OriginId backward = program.of_thread(2);
  program.capture(1_MiB);
  program.capture_on(backward, 1_MiB);
  program.capture(1_MiB);
  program.elsewhere();  // the thread that began it has ended it
  program.capture(1_MiB);
  program.capture_on(backward, 1_MiB);
  const PrivatePool pool = program.only_pool();
  ASSERT_EQ(pool.uses.size(), 2U);
  EXPECT_EQ(pool.uses[0].allocations, 3U);
  EXPECT_EQ(pool.uses[1].allocations, 2U);
}

TEST(PrivatePools, APoolThatIsGoneHoldsNothing) {
  Graphs program;
  program.reserve(20_MiB);
  program.free(program.capture(10_MiB));
  program.release(20_MiB);
  const PrivatePool pool = program.only_pool();
  EXPECT_EQ(pool.reserved, 0_B);
  EXPECT_EQ(pool.peak_reserved, 20_MiB);
  EXPECT_EQ(pool.reusable(), 0_B);
}

TEST(PrivatePools, KindsOfADriversMemoryAreNone) {
  TraceBuilder build;
  build.trace().tables.pools.push_back({});
  const HeapId driver = build.heap("cuda.driver", Level::driver, 0);
  build.alloc(build.origin(driver, 0, PoolId{1}), {0x1000}, 2_MiB);
  EXPECT_TRUE(private_pools(build.trace(), find_activity(build.trace())).empty());
}

TEST(PrivatePools, TracesWithoutThemHaveNone) {
  TraceBuilder build;
  build.alloc(build.origin(HeapId{1}), {1}, 1_MiB);
  EXPECT_TRUE(private_pools(build.trace(), find_activity(build.trace())).empty());
}

/// What the schema says of the fields of a row, which are described beside it.
template <class Row>
void expect_described(const nlohmann::json& schema) {
  std::size_t described = 0;
  for (const ResultField<Row>& field : FieldsOf<Row>::all) {
    if (field.key.empty()) continue;
    ++described;
    const nlohmann::json& property = schema.at("properties").at(std::string(field.key));
    EXPECT_EQ(property.at("type"), schema_type(field.unit)) << field.key;
    EXPECT_EQ(property.at("description"), field.description()) << field.key;
    EXPECT_EQ(property.contains("minimum"), schema_type(field.unit) == "integer") << field.key;
  }
  std::size_t rows = 0;  // properties that list other rows
  for (const auto& property : schema.at("properties")) rows += property.at("type") == "array" ? 1U : 0U;
  EXPECT_EQ(schema.at("properties").size(), described + rows);
  EXPECT_EQ(schema.at("required").size(), described + rows);
}

TEST(PrivatePools, TheSchemaSaysWhatTheirFieldsSay) {
  std::ifstream file(test::source_directory() / "docs" / "schema" / "report.json");
  const nlohmann::json pool = nlohmann::json::parse(file)
                                  .at("properties")
                                  .at("private_pools")
                                  .at("items")
                                  .at("properties")
                                  .at("pools")
                                  .at("items");
  expect_described<PrivatePool>(pool);
  expect_described<PoolUse>(pool.at("properties").at("uses").at("items"));
}

TEST(PrivatePools, EachFurtherUseIsWorthTheMedian) {
  PrivatePool pool{.uses = {{.grew = 100_MiB}}};
  EXPECT_EQ(pool.marginal(), std::nullopt) << "one use says nothing of further ones";
  for (const Bytes grew : {8_MiB, 2_MiB, 4_MiB}) pool.uses.push_back({.grew = grew});
  EXPECT_EQ(pool.marginal(), 4_MiB);
}

}  // namespace
}  // namespace memreel
