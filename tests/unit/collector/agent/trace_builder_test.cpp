// SPDX-License-Identifier: Apache-2.0
// What records mean: the resulting trace, read back.
#include "collector/trace/trace_builder.h"

#include <gmock/gmock.h>

#include <map>
#include <random>
#include <string>

#include "formats/reader/trace_reader.h"
#include "formats/writer/trace_writer.h"

namespace memreel::agent {
namespace {

/// Builds a trace from records given one drain at a time.
class TraceBuilderTest : public ::testing::Test {
 protected:
  /// Records in order, each with the next sequence number and a millisecond later than the last.
  std::vector<Record> in_order(std::vector<Record> records) {
    for (Record& record : records) {
      record.sequence = next_++;
      record.time = static_cast<std::int64_t>(record.sequence) * 1'000'000;
      if (record.thread == 0) record.thread = 11;
    }
    return records;
  }
  void add(std::vector<Record> records) { builder_.add(in_order(std::move(records))); }

  const Trace& trace() {
    if (!trace_.header.producer.empty()) return trace_;
    EXPECT_TRUE(writer_.finish());
    auto read = load(memory_file(bytes_), "test");
    EXPECT_TRUE(read);
    trace_ = *std::move(read);
    return trace_;
  }
  /// "alloc cuda.driver 0x1000 100 async", for each event; zero and empty fields are omitted.
  std::vector<std::string> events() {
    std::vector<std::string> lines;
    const Trace& t = trace();
    for (std::size_t i = 0; i < t.events.count(); ++i) {
      const Event event = t.events[i];
      const Origin& origin = t.tables[event.origin];
      std::string line(name_of(event.kind));
      line += " " + t.tables[t.tables[origin.heap].name] + "/" + std::to_string(t.tables[origin.heap].device);
      std::array<char, 40> numbers{};
      std::snprintf(numbers.data(), numbers.size(), " %llx %llu", static_cast<unsigned long long>(event.address.value),
                    static_cast<unsigned long long>(event.size.count));
      line += numbers.data();
      if (origin.pool != PoolId::default_pool) line += " " + t.tables[t.tables[origin.pool].name];
      lines.push_back(line);
    }
    return lines;
  }

  std::uint64_t next_ = 1;
  Recorder recorder_{{.depth = 0}};
  std::vector<std::byte> bytes_;
  TraceWriter writer_{memory_sink(bytes_), {.producer = "test"}};
  TraceBuilder builder_{recorder_, writer_};
  Trace trace_;
};

using ::testing::ElementsAre;

Record alloc(std::uint64_t address, std::uint64_t size, Space space = Space::linear, std::uint16_t context = 1) {
  return {.address = address, .size = size, .context = context, .kind = RecordKind::alloc, .space = space};
}
Record free_of(std::uint64_t address, Space space = Space::linear) {
  return {.address = address, .kind = RecordKind::free, .space = space};
}
Record cancelled(std::uint64_t sequence) { return {.object = sequence, .kind = RecordKind::free_cancelled}; }

TEST_F(TraceBuilderTest, AFreeEndsTheAllocationAtItsAddress) {
  add({alloc(0x1000, 100), alloc(0x2000, 50), free_of(0x1000)});
  EXPECT_THAT(events(), ElementsAre("alloc cuda.driver/0 1000 100", "alloc cuda.driver/0 2000 50",
                                    "free_requested cuda.driver/0 1000 100"));
  EXPECT_EQ(trace().events[2].allocation, AllocationId{0});
  EXPECT_EQ(trace().losses, Losses{});
}

TEST_F(TraceBuilderTest, TellsWhatEachHeapHolds) {
  add({alloc(0x1000, 100), alloc(0x2000, 50), alloc(0x1000, 7, Space::torch), free_of(0x1000)});
  Usage& usage = recorder_.usage();
  const auto heaps = usage.ask(1, Usage::Peaks::keep, std::chrono::seconds(1), [&] { usage.settle(1); }).heaps;
  EXPECT_THAT(
      heaps,
      ElementsAre(HeapUsage{.device = 0, .level = Level::driver, .name = "cuda.driver", .live = 50_B, .peak = 150_B},
                  HeapUsage{.device = 0,
                            .level = Level::framework,
                            .name = "torch.cuda",
                            .live = 7_B,
                            .peak = 7_B,
                            .reserved = 50_B}));
}

TEST_F(TraceBuilderTest, MemoryOfOtherDevicesMayBeFreedFromThisOne) {
  Record other = alloc(0x1000, 100);
  other.device = 2;
  add({other, free_of(0x1000)});
  EXPECT_THAT(events(), ElementsAre("alloc cuda.driver/2 1000 100", "free_requested cuda.driver/2 1000 100"));
}

TEST_F(TraceBuilderTest, EveryFamilyHasItsPool) {
  Record pinned = alloc(1, 1, Space::pinned), registered = alloc(2, 2, Space::registered);
  pinned.device = registered.device = -1;
  add({alloc(3, 3, Space::managed), alloc(4, 4, Space::array), alloc(5, 5, Space::ordered), pinned, registered,
       alloc(6, 6, Space::torch)});
  EXPECT_THAT(events(), ElementsAre("alloc cuda.driver/0 3 3 managed", "alloc cuda.driver/0 4 4 array (estimated)",
                                    "alloc cuda.driver/0 5 5 async", "alloc cuda.host/-1 1 1 pinned",
                                    "alloc cuda.host/-1 2 2 registered", "alloc torch.cuda/0 6 6"));
  EXPECT_EQ(trace().tables[trace().tables[trace().tables[trace().events[5].origin].heap].parent].level, Level::driver);
}

TEST_F(TraceBuilderTest, AddressesOfDifferentKindsDoNotMeet) {
  add({alloc(0x1000, 1), alloc(0x1000, 2, Space::pinned), alloc(0x1000, 3, Space::array),
       alloc(0x1000, 4, Space::torch), free_of(0x1000, Space::array)});
  EXPECT_EQ(events().back(), "free_requested cuda.driver/0 1000 3 array (estimated)");
}

TEST_F(TraceBuilderTest, FreesNameTheirStreamAndTheAllocationsPool) {
  Record from_pool = alloc(0x1000, 100, Space::ordered);
  from_pool.object = 0xF0;
  from_pool.stream = 1;
  Record freed = free_of(0x1000, Space::ordered);
  freed.stream = 2;
  add({from_pool, freed});
  const Trace& t = trace();
  EXPECT_EQ(t.tables[t.tables[t.events[1].origin].pool].key_low, 0xF0U);
  EXPECT_EQ(t.tables[t.tables[t.events[1].origin].stream].handle, 2U);
}

TEST_F(TraceBuilderTest, TheChosenPoolServesRequestsThatNameNone) {
  add({{.object = 0xF0, .device = 0, .kind = RecordKind::pool_chosen}, alloc(0x1000, 100, Space::ordered)});
  const Trace& t = trace();
  EXPECT_EQ(t.tables[t.tables[t.events[0].origin].pool].key_low, 0xF0U);
}

TEST_F(TraceBuilderTest, TheChosenPoolIsTheOneOfTheMoment) {
  const auto chosen = [](std::uint64_t pool) -> Record { return {.object = pool, .kind = RecordKind::pool_chosen}; };
  add({alloc(0x1000, 1, Space::ordered),
       chosen(0xF0),
       alloc(0x2000, 1, Space::ordered),
       chosen(0xF1),
       alloc(0x3000, 1, Space::ordered),
       {.object = 0xF1, .kind = RecordKind::pool_destroyed},
       alloc(0x4000, 1, Space::ordered)});
  const Trace& t = trace();
  std::vector<std::uint64_t> keys;
  for (std::size_t i = 0; i < t.events.count(); ++i)
    keys.push_back(t.tables[t.tables[t.events[i].origin].pool].key_low);
  EXPECT_THAT(keys, ElementsAre(0, 0xF0, 0xF1, 0));
}

TEST_F(TraceBuilderTest, AFailedFreeNeverHappened) {
  add({alloc(0x1000, 100), free_of(0x1000), free_of(0xBAD), cancelled(2), cancelled(3)});
  EXPECT_THAT(events(), ElementsAre("alloc cuda.driver/0 1000 100"));
}

TEST_F(TraceBuilderTest, AFreeThatFailsLaterGivesItsAllocationBack) {
  add({alloc(0x1000, 100), free_of(0x1000)});
  add({cancelled(2), alloc(0x2000, 1), free_of(0x1000)});
  EXPECT_THAT(events(), ElementsAre("alloc cuda.driver/0 1000 100", "free_requested cuda.driver/0 1000 100",
                                    "alloc cuda.driver/0 1000 100", "alloc cuda.driver/0 2000 1",
                                    "free_requested cuda.driver/0 1000 100"));
}

TEST_F(TraceBuilderTest, AFreeOfSomethingOlderIsKeptAndCounted) {
  add({free_of(0x1000)});
  EXPECT_THAT(events(), ElementsAre("free_requested cuda.driver/0 1000 0"));
  EXPECT_EQ(trace().losses.unmatched_frees, 1U);
}

TEST_F(TraceBuilderTest, OnlyALackOfMemoryIsAFailedAllocation) {
  Record lack = alloc(0, 1 << 30), wrong = alloc(0, 0);
  lack.kind = wrong.kind = RecordKind::alloc_failed;
  lack.status = 2;
  wrong.status = 1;
  add({lack, wrong});
  EXPECT_THAT(events(), ElementsAre("alloc_failed cuda.driver/0 0 1073741824", "mark cuda.driver/0 0 0"));
  const Trace& t = trace();
  EXPECT_EQ(t.tables[t.tables[MarkId{static_cast<std::uint32_t>(t.events[1].value)}].name],
            "CUDA error 1 in an allocation");
}

TEST_F(TraceBuilderTest, AContextTakesWithItWhatIsItsOwn) {
  add({alloc(0x1000, 1, Space::linear, 1),
       alloc(0x2000, 2, Space::linear, 2),
       alloc(0x3000, 3, Space::ordered, 1),
       alloc(0x4000, 4, Space::managed, 1),
       alloc(0x5000, 5, Space::array, 1),
       {.context = 1, .kind = RecordKind::context_destroyed}});
  const auto all = events();
  EXPECT_THAT(std::vector(all.begin() + 5, all.end()),
              ::testing::UnorderedElementsAre("free_requested cuda.driver/0 1000 1",
                                              "free_requested cuda.driver/0 4000 4 managed",
                                              "free_requested cuda.driver/0 5000 5 array (estimated)"));
}

TEST_F(TraceBuilderTest, ResettingADeviceTakesItsPoolsAlong) {
  Record other = alloc(0x2000, 2, Space::ordered);
  other.device = 1;
  add({alloc(0x1000, 1, Space::ordered), other, {.device = 0, .kind = RecordKind::device_reset}});
  EXPECT_THAT(events(), ElementsAre("alloc cuda.driver/0 1000 1 async", "alloc cuda.driver/1 2000 2 async",
                                    "free_requested cuda.driver/0 1000 1 async"));
}

TEST_F(TraceBuilderTest, MappedMemoryLivesAsLongAsItsHandleOrAMapping) {
  add({{.address = 0x10000, .size = 0x4000, .kind = RecordKind::addresses_reserved},
       {.size = 0x2000, .object = 5, .device = 1, .kind = RecordKind::handle_created, .space = Space::physical},
       {.address = 0x10000, .size = 0x2000, .object = 5, .kind = RecordKind::mapped},
       {.object = 5, .kind = RecordKind::handle_released},
       {.address = 0x10000, .size = 0x2000, .kind = RecordKind::unmapped},
       {.address = 0x10000, .size = 0x4000, .kind = RecordKind::addresses_released}});
  EXPECT_THAT(
      events(),
      ElementsAre("segment_alloc cuda.addresses/-1 10000 16384", "alloc cuda.driver/1 5 8192 physical",
                  "segment_map cuda.mapped/1 10000 8192", "segment_unmap cuda.mapped/1 10000 8192",
                  "free_requested cuda.driver/1 5 8192 physical", "segment_free cuda.addresses/-1 10000 16384"));
}

TEST_F(TraceBuilderTest, TwoLivingPiecesWithOneHandleAreApart) {
  const Record created{.size = 0x2000, .object = 5, .kind = RecordKind::handle_created, .space = Space::physical};
  const Record released{.object = 5, .kind = RecordKind::handle_released};
  const auto mapped = [](std::uint64_t address) {
    return Record{.address = address, .size = 0x2000, .object = 5, .kind = RecordKind::mapped};
  };
  add({created,
       mapped(0x10000),
       released,
       created,
       mapped(0x20000),
       released,
       {.address = 0x10000, .size = 0x2000, .kind = RecordKind::unmapped}});
  const Trace& t = trace();
  EXPECT_EQ(t.events[t.events.count() - 1].allocation, AllocationId{0});
  EXPECT_EQ(t.losses.unmatched_frees, 0U);
}

TEST_F(TraceBuilderTest, GraphsPromiseMemoryButAllocateNone) {
  add({{.address = 0x1000, .size = 64, .kind = RecordKind::graph_alloc, .space = Space::graph},
       {.address = 0x2000, .size = 32, .kind = RecordKind::graph_alloc, .space = Space::graph},
       {.address = 0x1000, .kind = RecordKind::graph_free, .space = Space::graph},
       free_of(0x2000, Space::ordered),
       free_of(0x2000, Space::ordered)});
  EXPECT_THAT(events(), ElementsAre("segment_alloc cuda.graph/0 1000 64", "segment_alloc cuda.graph/0 2000 32",
                                    "segment_free cuda.graph/0 1000 64"));
  EXPECT_EQ(trace().losses.unmatched_frees, 0U);
}

TEST_F(TraceBuilderTest, ImportedMemoryIsNotTheProgramsAndIsOpenedOnce) {
  add({alloc(0x1000, 64, Space::imported), alloc(0x1000, 64, Space::imported), free_of(0x1000, Space::imported),
       free_of(0x1000, Space::linear)});
  EXPECT_THAT(events(), ElementsAre("segment_map cuda.imported/0 1000 64", "segment_unmap cuda.imported/0 1000 64"));
}

TEST_F(TraceBuilderTest, WhatIsMappedOfAnotherProcessIsImported) {
  add({{.object = 5, .device = 1, .kind = RecordKind::handle_imported},
       {.address = 0x10000, .size = 64, .object = 5, .kind = RecordKind::mapped},
       {.object = 5, .kind = RecordKind::handle_released},
       {.address = 0x10000, .size = 64, .kind = RecordKind::unmapped},
       {.size = 64, .object = 5, .kind = RecordKind::handle_created, .space = Space::physical},
       {.address = 0x10000, .size = 64, .object = 5, .kind = RecordKind::mapped}});
  EXPECT_THAT(events(), ElementsAre("segment_map cuda.imported/1 10000 64", "segment_unmap cuda.imported/1 10000 64",
                                    "alloc cuda.driver/0 5 64 physical", "segment_map cuda.mapped/0 10000 64"));
}

TEST_F(TraceBuilderTest, APoolsMemoryIsOnThePoolsDevice) {
  Record served = alloc(0x1000, 64, Space::ordered);
  served.object = 9;
  add({{.object = 9, .device = 1, .kind = RecordKind::pool_created}, served, free_of(0x1000, Space::ordered)});
  EXPECT_THAT(events(), ElementsAre("alloc cuda.driver/1 1000 64 async", "free_requested cuda.driver/1 1000 64 async"));
}

TEST_F(TraceBuilderTest, WhatAPoolRefusedIsOfThePoolsDevice) {
  add({{.object = 9, .device = 1, .kind = RecordKind::pool_created, .space = Space::ordered},
       {.size = 64, .object = 9, .kind = RecordKind::alloc_failed, .space = Space::ordered, .status = 2}});
  EXPECT_THAT(events(), ElementsAre("alloc_failed cuda.driver/1 0 64 async"));
}

TEST_F(TraceBuilderTest, PoolsOfTheHostAndOfManagedMemory) {
  Record of_host = alloc(0x1000, 64, Space::ordered), managed = alloc(0x2000, 64, Space::ordered);
  of_host.object = 8;
  managed.object = 9;
  add({{.object = 8, .device = -1, .kind = RecordKind::pool_created, .space = Space::ordered},
       {.object = 9, .device = 1, .kind = RecordKind::pool_created, .space = Space::managed},
       of_host,
       managed,
       free_of(0x1000, Space::ordered),
       free_of(0x2000, Space::ordered),
       {.object = 9, .device = 0, .kind = RecordKind::pool_created, .space = Space::ordered},  // another at its place
       managed});
  EXPECT_THAT(events(),
              ElementsAre("alloc cuda.host/-1 1000 64 async", "alloc cuda.driver/1 2000 64 async managed",
                          "free_requested cuda.host/-1 1000 64 async",
                          "free_requested cuda.driver/1 2000 64 async managed", "alloc cuda.driver/0 2000 64 async"));
}

TEST_F(TraceBuilderTest, SamplesAreOfTheDeviceOrOfAPool) {
  add({{.address = 70, .size = 30, .kind = RecordKind::memory_info},
       {.address = 7, .size = 3, .kind = RecordKind::memory_info, .space = Space::ordered},
       {.address = 6, .size = 2, .kind = RecordKind::memory_info, .space = Space::graph}});
  add({{.size = 500, .device = -1, .kind = RecordKind::memory_info}});
  EXPECT_THAT(events(), ElementsAre("memory_info cuda.driver/0 0 30", "memory_info cuda.driver/0 0 3 async",
                                    "memory_info cuda.driver/0 0 2 graph", "memory_info cuda.host/-1 0 500 resident"));
  EXPECT_EQ(trace().events[0].value, 70U);
}

// Programs with many threads and failing frees, compared with a map of live allocations.
TEST_F(TraceBuilderTest, RandomProgramsEndWithWhatIsAlive) {
  std::minstd_rand random(3);  // NOLINT(cert-msc51-cpp): the same in every run
  std::map<std::uint64_t, std::uint64_t> alive;
  for (int drain = 0; drain < 200; ++drain) {
    std::vector<Record> records;
    std::uint64_t sequence = next_;
    for (int i = 0; i < 50; ++i) {
      const std::uint32_t thread = 20 + static_cast<std::uint32_t>(random() % 4);
      if (random() % 2 == 0 || alive.empty()) {
        const std::uint64_t address = 512 * (1 + random() % 4096);
        if (alive.contains(address)) continue;
        alive[address] = 1 + random() % 1000;
        records.push_back(alloc(address, alive[address]));
        ++sequence;
      } else {
        const auto victim = std::next(alive.begin(), static_cast<long>(random() % alive.size()));
        records.push_back(free_of(victim->first));
        ++sequence;
        if (random() % 8 == 0) {
          records.back().thread = thread;
          records.push_back(cancelled(sequence - 1));
          ++sequence;
        } else {
          alive.erase(victim);
        }
      }
      records.back().thread = thread;
    }
    // Drains split anywhere, including between a free and its cancellation.
    records = in_order(std::move(records));
    const std::size_t cut = records.empty() ? 0 : random() % records.size();
    for (std::size_t i = 0; i + 1 < records.size(); ++i)
      if (records[i + 1].kind == RecordKind::free_cancelled) records[i + 1].thread = records[i].thread;
    builder_.add(std::span(records).first(cut));
    builder_.add(std::span(records).subspan(cut));
  }
  std::map<std::uint64_t, std::uint64_t> live;
  const Trace& t = trace();
  for (std::size_t i = 0; i < t.events.count(); ++i) {
    const Event event = t.events[i];
    if (event.kind == EventKind::alloc) {
      EXPECT_TRUE(live.emplace(event.address.value, event.size.count).second);
    } else {
      EXPECT_EQ(live.erase(event.address.value), 1U);
    }
  }
  EXPECT_EQ(live, alive);
  EXPECT_EQ(t.losses, Losses{});
}

// The program's own annotations.

Record own(RecordKind kind, std::uint64_t pool, std::uint64_t address = 0, std::uint64_t size = 0) {
  return {.address = address, .size = size, .object = pool, .kind = kind, .space = Space::own};
}

TEST_F(TraceBuilderTest, PoolsOfTheProgramAreHeaps) {
  const auto name = [&](std::string_view text) {
    return recorder_.names().number_of({std::as_bytes(std::span(text))});
  };
  Record inner = own(RecordKind::own_pool_made, 2, name("inner"));
  inner.stream = 1;  // its parent
  add({own(RecordKind::own_pool_made, 1, name("outer")), inner, own(RecordKind::segment_added, 2, 0x1000, 4096),
       own(RecordKind::alloc, 2, 0x1000, 10), own(RecordKind::alloc, 1, 0x1000, 20),
       own(RecordKind::free_requested, 2, 0x1000), own(RecordKind::free_completed, 2, 0x1000),
       own(RecordKind::alloc_failed, 2, 0, 99), own(RecordKind::free, 1, 0x1000),
       own(RecordKind::segment_removed, 2, 0x1000)});
  EXPECT_THAT(events(), ElementsAre("pool_created outer/0 0 0", "pool_created inner/0 0 0",
                                    "segment_alloc inner/0 1000 4096", "alloc inner/0 1000 10", "alloc outer/0 1000 20",
                                    "free_requested inner/0 1000 10", "free_completed inner/0 1000 10",
                                    "alloc_failed inner/0 0 99", "free_requested outer/0 1000 20",
                                    "free_completed outer/0 1000 20", "segment_free inner/0 1000 4096"));
  const Tables& tables = trace().tables;
  std::map<std::string, std::string> parents;
  for (const Heap& heap : tables.heaps) parents[tables[heap.name]] = tables[tables[heap.parent].name];
  EXPECT_EQ(parents["inner"], "outer");
  EXPECT_EQ(parents["outer"], "cuda.driver");
}

TEST_F(TraceBuilderTest, WhatIsAtAnAddressTellsThePool) {
  add({own(RecordKind::alloc, 7, 0x10, 1), own(RecordKind::alloc, 8, 0x20, 2), own(RecordKind::resized, 0, 0x20, 3),
       own(RecordKind::free, 0, 0x10), own(RecordKind::free, 0, 0x99)});
  EXPECT_THAT(events(), ElementsAre("alloc pool 7/0 10 1", "alloc pool 8/0 20 2", "free_requested pool 8/0 20 2",
                                    "free_completed pool 8/0 20 2", "alloc pool 8/0 20 3",
                                    "free_requested pool 7/0 10 1", "free_completed pool 7/0 10 1"));
}

// PyTorch's allocator, from its own reports.

Record traced(RecordKind kind, std::uint64_t address, std::uint64_t size) {
  return {.address = address, .size = size, .kind = kind, .space = Space::torch_traced};
}

TEST_F(TraceBuilderTest, PyTorchIsAsItsOwnHistoryHasIt) {
  const std::array<std::uint64_t, 2> key{0, 4};
  Record pooled = traced(RecordKind::alloc, 0x2000, 600);
  pooled.object = recorder_.number_of_pool(key);
  add({traced(RecordKind::segment_added, 0x1000, 4096), traced(RecordKind::alloc, 0x1000, 500), pooled,
       traced(RecordKind::free, 0x1000, 500), traced(RecordKind::free_requested, 0x2000, 600),
       traced(RecordKind::free_completed, 0x2000, 600), traced(RecordKind::mapped, 0x8000, 4096),
       traced(RecordKind::unmapped, 0x8000, 4096), traced(RecordKind::segment_removed, 0x1000, 4096),
       traced(RecordKind::alloc_failed, 77, 1 << 20)});
  EXPECT_THAT(events(), ElementsAre("segment_alloc torch.cuda/0 1000 4096", "alloc torch.cuda/0 1000 500",
                                    "alloc torch.cuda/0 2000 600 ", "free_requested torch.cuda/0 1000 500",
                                    "free_completed torch.cuda/0 1000 500", "free_requested torch.cuda/0 2000 600",
                                    "free_completed torch.cuda/0 2000 600", "segment_map torch.cuda/0 8000 4096",
                                    "segment_unmap torch.cuda/0 8000 4096", "segment_free torch.cuda/0 1000 4096",
                                    "alloc_failed torch.cuda/0 0 1048576"));
  const Tables& tables = trace().tables;
  EXPECT_TRUE(std::ranges::any_of(tables.pools, [](const Pool& pool) { return pool.key_low == 4; }));
}

TEST_F(TraceBuilderTest, WhatIsAliveInAPoolGoesWithIt) {
  add({own(RecordKind::alloc, 7, 0x10, 1), own(RecordKind::alloc, 7, 0x20, 2), own(RecordKind::free_requested, 7, 0x20),
       own(RecordKind::own_pool_gone, 7)});
  EXPECT_THAT(events(), ElementsAre("alloc pool 7/0 10 1", "alloc pool 7/0 20 2", "free_requested pool 7/0 20 2",
                                    "pool_destroyed pool 7/0 0 0", "free_requested pool 7/0 10 1",
                                    ::testing::StartsWith("free_completed pool 7/0"),
                                    ::testing::StartsWith("free_completed pool 7/0")));
}

TEST_F(TraceBuilderTest, AnAllocationAtALiveAddressEndsTheOneBefore) {
  add({own(RecordKind::alloc, 7, 0x10, 1), own(RecordKind::alloc, 7, 0x10, 2)});
  EXPECT_THAT(events(), ElementsAre("alloc pool 7/0 10 1", "free_requested pool 7/0 10 1",
                                    "free_completed pool 7/0 10 1", "alloc pool 7/0 10 2"));
}

TEST_F(TraceBuilderTest, MarksHaveTheirNames) {
  const std::string_view name = "epoch";
  const std::uint64_t number = recorder_.names().number_of({std::as_bytes(std::span(name))});
  add({{.object = number, .kind = RecordKind::mark, .status = 1},
       {.object = number, .kind = RecordKind::mark, .status = 2}});
  ASSERT_EQ(trace().events.count(), 2U);
  const Tables& tables = trace().tables;
  const Mark begin = tables[static_cast<MarkId>(trace().events[0].value)];
  EXPECT_EQ(tables[begin.name], "epoch");
  EXPECT_EQ(begin.phase, MarkPhase::begin);
  EXPECT_EQ(tables[static_cast<MarkId>(trace().events[1].value)].phase, MarkPhase::end);
}

TEST_F(TraceBuilderTest, MarksWithoutANameAreLost) {
  for (const std::uint64_t number : {std::uint64_t{0}, std::uint64_t{0xFFFF'FFFF}, std::uint64_t{1} << 40U})
    add({{.object = number, .kind = RecordKind::mark}, own(RecordKind::own_pool_made, number + 1, number)});
  EXPECT_EQ(builder_.hook_lost(), 3U);
  EXPECT_EQ(trace().events.count(), 3U);
  EXPECT_THAT(events()[0], ::testing::StartsWith("pool_created pool 1/0"));
}

TEST_F(TraceBuilderTest, PyTorchsPoolsThatHaveNoRoomAreNotTheDefaultPool) {
  Record pooled = traced(RecordKind::alloc, 0x2000, 600);
  pooled.object = Recorder::lost_pool;
  add({traced(RecordKind::alloc, 0x1000, 500), pooled});
  EXPECT_EQ(builder_.hook_lost(), 1U);
  const Tables& tables = trace().tables;
  EXPECT_NE(tables[trace().events[0].origin].pool, tables[trace().events[1].origin].pool);
}

TEST_F(TraceBuilderTest, GapsInTheTotalsOfPyTorchAreCounted) {
  const auto tensor = [](RecordKind kind, std::uint64_t address, std::uint64_t total) {
    return Record{.address = address, .size = 512, .object = total, .kind = kind, .space = Space::torch};
  };
  add({tensor(RecordKind::alloc, 0x10, 512), tensor(RecordKind::alloc, 0x20, 1024),
       tensor(RecordKind::free, 0x10, 512)});
  EXPECT_EQ(builder_.hook_lost(), 0U);
  add({tensor(RecordKind::alloc, 0x30, 1536), tensor(RecordKind::free, 0x30, 1024)});
  EXPECT_EQ(builder_.hook_lost(), 1U);
}

/// A recording of a running program, whose PyTorch allocator is asked what it holds.
class AskedAllocator : public TraceBuilderTest {
 protected:
  using Records = std::vector<Record>;

  void tell(Records records) { asking_.add(in_order(std::move(records))); }
  static Record of(RecordKind kind, std::uint64_t address = 0, std::uint64_t size = 0, std::uint16_t status = 0) {
    const bool is_border =
        kind == RecordKind::snapshot_begin || kind == RecordKind::snapshot_taken || kind == RecordKind::snapshot_end;
    const Space space = is_border ? Space::linear : Space::torch_traced;
    return {.address = address, .size = size, .kind = kind, .space = space, .status = status};
  }
  static Record block(std::uint64_t address, std::uint64_t size, InitialUse use, std::uint64_t requested = 0) {
    Record record = of(RecordKind::snapshot_block, address, size, static_cast<std::uint16_t>(use));
    record.stream = requested;
    return record;
  }
  /// One of 4 KiB, with a block of each kind.
  static Records segment() {
    return {of(RecordKind::snapshot_segment, 0x10000, 4096, static_cast<std::uint16_t>(SnapshotSegment::small)),
            block(0x10000, 1024, InitialUse::allocated, 1000), block(0x10400, 512, InitialUse::free),
            block(0x10600, 512, InitialUse::pending, 400), block(0x10800, 2048, InitialUse::free)};
  }
  /// `exact`: that no event came while it was taken.
  void answer(Records found, bool exact = true) {
    tell(std::move(found));
    tell({of(RecordKind::snapshot_end, 0, 0, exact ? 1 : 0)});
  }
  std::vector<std::string> all_events() {
    asking_.finish();
    return events();
  }

  TraceBuilder asking_{recorder_, writer_, {}, nullptr, true};
};

TEST_F(AskedAllocator, BeginsWithWhatItHeld) {
  tell({of(RecordKind::free, 0x10400, 500), of(RecordKind::snapshot_begin), of(RecordKind::snapshot_taken),
        of(RecordKind::alloc, 0x10400, 512)});
  answer(segment());
  tell({of(RecordKind::free, 0x10000, 1000)});
  EXPECT_THAT(all_events(), ElementsAre("segment_alloc torch.cuda/0 10000 4096", "alloc torch.cuda/0 10000 1000",
                                        "alloc torch.cuda/0 10600 400", "free_requested torch.cuda/0 10600 400",
                                        "alloc torch.cuda/0 10400 512", "free_requested torch.cuda/0 10000 1000",
                                        "free_completed torch.cuda/0 10000 1000"))
      << "what came before is in the answer, and the rest follows it";
  ASSERT_EQ(trace().initial_heaps.size(), 1U);
  const InitialSegment held = trace().initial_heaps[0].segments.at(0);
  EXPECT_TRUE(held.small);
  EXPECT_FALSE(held.mapped);
  EXPECT_THAT(held.blocks, ElementsAre(InitialBlock{1024_B, InitialUse::allocated}, InitialBlock{512_B},
                                       InitialBlock{512_B, InitialUse::pending}, InitialBlock{2048_B}));
  EXPECT_EQ(asking_.held_before(), 2U);
}

TEST_F(AskedAllocator, KnowsWhereItsExpandableSegmentsBegin) {
  const auto mapped = [](std::uint64_t address, std::uint64_t stream) {
    constexpr std::uint64_t size = 20 << 20U;
    Record record =
        of(RecordKind::snapshot_segment, address, size, static_cast<std::uint16_t>(SnapshotSegment::expandable));
    record.stream = stream;
    return Records{record, block(address, size, InitialUse::free)};
  };
  tell({of(RecordKind::snapshot_begin), of(RecordKind::snapshot_taken)});
  constexpr std::uint64_t gib = 1 << 30U, base = 100 * gib;
  for (const auto& [address, stream] :
       {std::pair(base + gib, 0), std::pair(base, 0), std::pair(base + 20 * gib, 0), std::pair(base + 21 * gib, 7)})
    tell(mapped(address, static_cast<std::uint64_t>(stream)));
  answer({});
  EXPECT_EQ(all_events().front().substr(0, 11), "segment_map");
  std::vector<std::uint64_t> begins;
  for (const InitialSegment& segment : trace().initial_heaps.at(0).segments) begins.push_back(segment.range.value);
  EXPECT_THAT(begins, ElementsAre(base, base, base + 20 * gib, base + 21 * gib))
      << "far apart, or of another stream: another segment";
}

TEST_F(AskedAllocator, DoesNotTrustAnAnswerFromWhileItWasUsed) {
  tell({of(RecordKind::snapshot_begin), of(RecordKind::alloc, 0x10400, 512), of(RecordKind::snapshot_taken)});
  answer(segment(), false);
  EXPECT_THAT(all_events(), ElementsAre("alloc torch.cuda/0 10400 512", "segment_alloc torch.cuda/0 10000 4096",
                                        "alloc torch.cuda/0 10000 1000", "alloc torch.cuda/0 10600 400",
                                        "free_requested torch.cuda/0 10600 400"))
      << "nothing is dropped, and what is older is added";
  EXPECT_TRUE(trace().initial_heaps.empty());
}

TEST_F(AskedAllocator, DoesNotTrustAnAnswerWithAGap) {
  Records found = segment();
  found.erase(found.begin() + 2);
  tell({of(RecordKind::snapshot_begin), of(RecordKind::snapshot_taken)});
  answer(found);
  EXPECT_EQ(all_events().size(), 4U);
  EXPECT_TRUE(trace().initial_heaps.empty());
}

TEST_F(AskedAllocator, WritesWhatWaitsIfNoAnswerComes) {
  tell({of(RecordKind::alloc, 0x10400, 512)});
  answer({}, false);
  tell({of(RecordKind::alloc, 0x10600, 512)});
  EXPECT_THAT(all_events(), ElementsAre("alloc torch.cuda/0 10400 512", "alloc torch.cuda/0 10600 512"));
}

TEST_F(AskedAllocator, DoesNotWaitForLong) {
  tell({of(RecordKind::alloc, 0x10000, 1000)});
  next_ += 6000;  // milliseconds
  tell({of(RecordKind::alloc, 0x20000, 512), of(RecordKind::snapshot_begin), of(RecordKind::snapshot_taken)});
  answer(segment());
  EXPECT_THAT(all_events(), ElementsAre("alloc torch.cuda/0 10000 1000", "alloc torch.cuda/0 20000 512",
                                        "alloc torch.cuda/0 10600 400", "free_requested torch.cuda/0 10600 400"))
      << "what was seen to begin is not older";
  EXPECT_TRUE(trace().initial_heaps.empty());
}

}  // namespace
}  // namespace memreel::agent
