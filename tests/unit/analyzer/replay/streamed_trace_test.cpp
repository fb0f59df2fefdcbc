// SPDX-License-Identifier: Apache-2.0
// A replay gives the same result from memory and block by block, with any number of threads.
#include "analyzer/replay/streamed_trace.h"
#include "analyzer/replay/prepare.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <tuple>

#include "analyzer/replay/replay.h"
#include "formats/writer/trace_writer.h"
#include "tests/bench/synthetic.h"
#include "tests/unit/analyzer/device_policies.h"
#include "tests/unit/analyzer/history.h"

namespace memreel {
namespace {

/// A file with the events of a trace, in small blocks.
class TraceFile {
 public:
  explicit TraceFile(const Trace& trace, std::uint32_t events_per_block = 1000) {
    auto sink = atomic_file_sink(path_);
    EXPECT_TRUE(sink);
    TraceWriter writer(std::move(*sink), trace.header, {.events_per_block = events_per_block});
    writer.extend_tables(trace.tables);
    for (std::size_t i = 0; i < trace.events.count(); ++i) writer.append(trace.events[i]);
    EXPECT_TRUE(writer.finish());
  }
  ~TraceFile() { std::filesystem::remove(path_); }
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_ =
      std::filesystem::temp_directory_path() / ("memreel_streamed_" + std::to_string(::getpid()) + "_" +
                                                std::to_string(reinterpret_cast<std::uintptr_t>(this)) + ".reel");
};

/// All results of a replay except its duration.
auto findings(const ReplayResult& r) {
  std::vector<std::tuple<std::uint64_t, Bytes, Bytes, Bytes, double>> series;
  for (const SeriesPoint& p : r.series)
    series.emplace_back(p.first_event, p.live_max, p.allocated_max, p.reserved_max, p.external_fragmentation_max);
  return std::tuple(r.policy, r.events, r.peak_live, r.peak_live_event, r.peak_allocated, r.peak_allocated_event,
                    r.peak_reserved, r.peak_reserved_event, r.end_reserved, r.fragmentation_at_peak,
                    r.external_fragmentation_max, r.internal_waste, r.failed_allocations,
                    r.first_failure ? r.first_failure->event : 0, r.driver_calls.malloc, r.driver_calls.free,
                    r.driver_calls.map, r.driver_calls.unmap, r.driver_calls.sync, r.min_capacity, series);
}

std::vector<PolicySpec> all_policies() {
  std::vector<PolicySpec> specs;
  for (const PolicyInfo& policy : testing::device_policies())
    if (!policy.needs_whole_trace) specs.push_back({.name = std::string(policy.name)});
  return specs;
}

void expect_same(const std::vector<ReplayResult>& a, const std::vector<ReplayResult>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_EQ(findings(a[i]), findings(b[i])) << a[i].policy.text();
}

/// Two streams, frees that complete later, failures, and blocks that end between free requested and free completed.
Trace eventful_trace() {
  testing::History history;
  synthetic::Random random(7);
  std::vector<AllocationId> live, pending;
  for (int i = 0; i < 20'000; ++i) {
    if (random.chance(3) && !live.empty()) {
      const auto victim = static_cast<std::ptrdiff_t>(random.below(live.size()));
      const AllocationId id = live[static_cast<std::size_t>(victim)];
      live.erase(live.begin() + victim);
      history.free_requested(id);
      if (random.chance(4))
        pending.push_back(id);
      else
        history.free_completed(id);
    } else if (random.chance(20) && !pending.empty()) {
      history.free_completed(pending.back());
      pending.pop_back();
    } else if (random.chance(5000)) {
      history.empty_cache();
    } else if (live.size() < 800) {
      live.push_back(history.alloc(Bytes{random.log_uniform(1, 8U << 20U)}, Address{std::uint64_t(i + 1) << 32U},
                                   random.below(2)));
    }
  }
  return std::move(history.trace());
}

TEST(StreamedTrace, GivesTheSameResultsAsOneInMemory) {
  const Trace trace = eventful_trace();
  const std::vector<PolicySpec> specs = all_policies();
  const auto in_memory = replay(prepare(trace), specs, {.series_points = 37, .threads = 1});
  ASSERT_TRUE(in_memory) << in_memory.error().message();
  for (const std::uint32_t events_per_block : {1U, 1000U, 65536U}) {
    SCOPED_TRACE(events_per_block);
    const TraceFile file(trace, events_per_block);
    const auto streamed = StreamedTrace::open(file.path());
    ASSERT_TRUE(streamed) << streamed.error().message();
    EXPECT_EQ((*streamed)->event_count(), trace.events.count());
    const auto results =
        replay((*streamed)->heaps(), specs, {.series_points = 37, .threads = 3, .rows = streamed->get()});
    ASSERT_TRUE(results) << results.error().message();
    EXPECT_TRUE((*streamed)->status());
    expect_same(*in_memory, *results);
    if (events_per_block == 1) continue;
    const auto loaded = load(file.path());
    ASSERT_TRUE(loaded);
    const auto indexed = replay(prepare(*loaded), specs, {.series_points = 37, .threads = 2});
    ASSERT_TRUE(indexed);
    expect_same(*in_memory, *indexed);
  }
}

/// A random recording of PyTorch and the driver below it: segments from the driver, other driver allocations, requests
/// that fail at both levels, and samples of the device.
Trace both_levels(std::uint64_t seed, bool framework_tells_segments) {
  testing::TraceBuilder build;
  build.trace().header.source = "cupti";
  const HeapId torch{1}, driver = build.heap("cuda.driver", Level::driver, 0);
  const OriginId of_torch = build.origin(torch), of_driver = build.origin(driver);
  synthetic::Random random(seed);
  struct Segment {
    Address address;
    Bytes size;
    AllocationId region, block;
  };
  std::vector<Segment> segments;
  std::vector<AllocationId> others;
  std::uint64_t next = 1;
  Bytes used;
  for (int i = 0; i < 3000; ++i) {
    const Address address{next << 28U};
    if (random.chance(3) && segments.size() < 20) {
      ++next;
      const Bytes size = 2_MiB * (6 + random.below(20));
      const AllocationId region = build.alloc(of_driver, address, size);
      if (framework_tells_segments) build.event(EventKind::segment_alloc, of_torch, address, size);
      segments.push_back({address, size, region, build.alloc(of_torch, address, size - 4096_B)});
      used += size;
    } else if (random.chance(3) && !segments.empty()) {
      const Segment gone = segments[random.below(segments.size())];
      std::erase_if(segments, [&](const Segment& each) { return each.address == gone.address; });
      build.free(gone.block);
      if (framework_tells_segments) build.event(EventKind::segment_free, of_torch, gone.address, gone.size);
      build.free(gone.region);
      used -= gone.size;
    } else if (random.chance(4)) {
      ++next;
      others.push_back(build.alloc(of_driver, address, 3_MiB));
    } else if (random.chance(4) && !others.empty()) {
      build.free(others.back());
      others.pop_back();
    } else if (random.chance(60)) {
      const Bytes size = random.chance(4) ? Bytes{std::uint64_t{1} << 42U} : 900_MiB;
      for (int t = 0; t < 2; ++t) build.push({.kind = EventKind::alloc_failed, .origin = of_driver, .size = size});
      build.push({.kind = EventKind::alloc_failed, .origin = of_torch, .size = size});
    } else if (random.chance(20)) {
      build.push({.kind = EventKind::memory_info, .origin = of_driver, .size = used, .value = (1_GiB - used).count});
    }
  }
  return std::move(build.trace());
}

TEST(StreamedTrace, LevelsAreTiedAndLimitsDeducedAsInMemory) {
  const std::vector<PolicySpec> specs{{.name = "torch.native"}, {.name = "cuda.malloc"}, {.name = "fit.best"}};
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    const Trace recorded = both_levels(seed + 1, seed % 2 == 0);
    const TraceFile file(recorded, seed % 3 == 0 ? 7 : 1000);
    auto loaded = load(file.path());
    ASSERT_TRUE(loaded);
    EXPECT_GT(complete_trace(*loaded), 0U);
    const std::vector<Prepared> heaps = prepare(*loaded);
    const auto streamed = StreamedTrace::open(file.path());
    ASSERT_TRUE(streamed) << streamed.error().message();
    EXPECT_EQ((*streamed)->event_count(), loaded->events.count());
    ASSERT_EQ((*streamed)->heaps().size(), heaps.size());
    for (std::size_t i = 0; i < heaps.size(); ++i) {
      EXPECT_EQ((*streamed)->heaps()[i].implied_capacity, heaps[i].implied_capacity);
      EXPECT_LE(heaps[i].implied_capacity, 2_GiB) << "of a device of 1 GiB, where 4 TiB were refused";
    }
    const auto histories = heap_histories(*loaded);
    ASSERT_EQ((*streamed)->histories().size(), histories.size());
    for (std::size_t i = 0; i < histories.size(); ++i)
      EXPECT_EQ((*streamed)->histories()[i].peak_reserved, histories[i].peak_reserved);
    const auto in_memory = replay(heaps, specs, {});
    const auto block_by_block = replay((*streamed)->heaps(), specs, {.rows = streamed->get()});
    ASSERT_TRUE(in_memory && block_by_block);
    expect_same(*in_memory, *block_by_block);
  }
}

TEST(StreamedTrace, KnowsWhatTheRecordingAddsUpTo) {
  const Trace trace = eventful_trace();
  const TraceFile file(trace);
  const auto streamed = StreamedTrace::open(file.path());
  ASSERT_TRUE(streamed);
  const auto loaded = load(file.path());
  ASSERT_TRUE(loaded);
  const auto expected = heap_histories(*loaded);
  const auto& found = (*streamed)->histories();
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].heap, expected[i].heap);
    EXPECT_EQ(found[i].allocations, expected[i].allocations);
    EXPECT_EQ(found[i].peak_live, expected[i].peak_live);
    EXPECT_EQ(found[i].peak_live_event, expected[i].peak_live_event);
    EXPECT_EQ(found[i].end_live, expected[i].end_live);
  }
}

TEST(StreamedTrace, AFileThatGoesAwayIsAnErrorAndNotAResult) {
  const Trace trace = eventful_trace();
  const auto file = std::make_unique<TraceFile>(trace);
  const auto streamed = StreamedTrace::open(file->path());
  ASSERT_TRUE(streamed);
  std::filesystem::remove(file->path());
  const std::vector<PolicySpec> specs{{.name = "fit.best"}};
  ASSERT_TRUE(replay((*streamed)->heaps(), specs, {.rows = streamed->get()}));
  EXPECT_FALSE((*streamed)->status());
}

TEST(StreamedTrace, LeastCapacitiesAreThoseInMemory) {
  testing::History history;
  for (int i = 0; i < 50; ++i) history.free(history.alloc(Bytes{1'000'000U + 40'000U * static_cast<unsigned>(i)}));
  const TraceFile file(history.trace(), 16);
  const auto streamed = StreamedTrace::open(file.path());
  ASSERT_TRUE(streamed);
  const std::vector<PolicySpec> specs{{.name = "torch.native"}, {.name = "fit.best"}};
  const auto a = replay(prepare(history.trace()), specs, {.find_min_capacity = true});
  const auto b = replay((*streamed)->heaps(), specs, {.find_min_capacity = true, .rows = streamed->get()});
  ASSERT_TRUE(a && b);
  expect_same(*a, *b);
}

}  // namespace
}  // namespace memreel
