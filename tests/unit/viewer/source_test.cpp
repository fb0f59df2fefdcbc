// SPDX-License-Identifier: Apache-2.0
// Files on their way to documents: valid, foreign, damaged, growing.
#include "viewer/model/source.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>

#include "analyzer/replay/completed_trace.h"
#include "formats/import/import.h"
#include "formats/writer/trace_writer.h"
#include "tests/histories.h"
#include "tests/unit/formats/random_history.h"
#include "tests/unit/sample_trace.h"
#include "viewer/model/device_samples.h"
#include "viewer/model/findings.h"
#include "viewer/model/navigation.h"
#include "viewer/model/prediction.h"
#include "viewer/model/ranks.h"

namespace memreel::viewer {
namespace {

using namespace std::chrono_literals;

class SourceOf : public ::testing::Test {
 public:
  SourceOf() { std::filesystem::create_directories(directory_); }
  ~SourceOf() override { std::filesystem::remove_all(directory_); }

 protected:
  std::filesystem::path file(const std::string& name, std::span<const std::byte> bytes) {
    auto path = directory_ / name;
    append(path, bytes);
    return path;
  }
  static void append(const std::filesystem::path& path, std::span<const std::byte> bytes) {
    std::ofstream stream(path, std::ios::binary | std::ios::app);
    stream.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
  /// Whether `condition` becomes true within a short time.
  static bool eventually(const std::function<bool()>& condition) {
    for (int i = 0; i < 6000; ++i) {
      if (condition()) return true;
      std::this_thread::sleep_for(10ms);
    }
    return false;
  }

 private:
  std::filesystem::path directory_ =
      std::filesystem::temp_directory_path() / ("memreel-source-" + std::to_string(::getpid()));
};

TEST_F(SourceOf, ATraceIsReadToItsEnd) {
  const auto bytes = memreel::testing::possible_trace(1, 4'000, {.events_per_block = 300});
  const Source source(file("a.reel", bytes));
  ASSERT_TRUE(eventually([&] { return source.status().stage == Stage::complete; }));
  EXPECT_EQ(source.document()->event_count(), load(memory_file(bytes), "a")->events.count());
  EXPECT_TRUE(source.document()->complete);
  EXPECT_FALSE(source.status().followed);
  ASSERT_NE(source.document()->whole, nullptr);
  EXPECT_EQ(&source.document()->whole->trace(), source.document()->trace.get());
}

TEST_F(SourceOf, AnImportableFileIsImported) {
  const auto history = test::history("borrow_s91_expandable");
  ASSERT_TRUE(history);
  const Source source(*history);
  ASSERT_TRUE(eventually([&] { return source.status().stage == Stage::complete; }));
  EXPECT_EQ(source.document()->event_count(), open_any(*history)->events.count());
}

TEST_F(SourceOf, WhatIsNoTraceFailsWithItsReason) {
  const std::string text = "hello";
  const Source source(file("a.txt", std::as_bytes(std::span(text))));
  ASSERT_TRUE(eventually([&] { return source.status().stage == Stage::failed; }));
  EXPECT_NE(source.status().error->message().find("a.txt"), std::string::npos);
  EXPECT_TRUE(source.document()->empty());
}

TEST_F(SourceOf, AGrowingFileIsFollowedToItsEnd) {
  const auto bytes = memreel::testing::possible_trace(5, 6'000, {.events_per_block = 200});
  const auto half = std::span(bytes).first(bytes.size() / 2), rest = std::span(bytes).subspan(bytes.size() / 2);
  const auto path = file("a.reel", half);
  const Source source(path);
  ASSERT_TRUE(eventually([&] { return source.status().stage == Stage::complete; }));
  EXPECT_TRUE(source.status().followed);
  const auto before = source.document();
  const std::uint32_t events = before->event_count();
  EXPECT_GT(events, 1000U);
  append(path, rest);
  ASSERT_TRUE(eventually([&] {
    const SourceStatus status = source.status();
    return status.stage == Stage::complete && !status.followed;
  }));
  EXPECT_EQ(source.document()->event_count(), load(memory_file(bytes), "a")->events.count());
  EXPECT_EQ(before->event_count(), events) << "an earlier version is what it was";
}

TEST_F(SourceOf, AnEndThatComesAfterAllEventsIsOne) {
  const auto bytes = memreel::testing::possible_trace(5, 6'000, {.events_per_block = 200});
  constexpr std::size_t last = 8;  // of the footer
  const auto path = file("a.reel", std::span(bytes).first(bytes.size() - last));
  const Source source(path);
  ASSERT_TRUE(eventually([&] { return source.status().stage == Stage::complete; }));
  EXPECT_TRUE(source.status().followed);
  append(path, std::span(bytes).last(last));
  EXPECT_TRUE(eventually([&] { return !source.status().followed; }));
}

TEST_F(SourceOf, WhatIsAddedBetweenALookAndAWaitIsRead) {
  const auto bytes = memreel::testing::possible_trace(5, 6'000, {.events_per_block = 200});
  const auto half = std::span(bytes).first(bytes.size() / 2), rest = std::span(bytes).subspan(bytes.size() / 2);
  const auto path = file("a.reel", half);
  std::atomic<const Source*> reading{nullptr};
  bool is_added = false;  // of the thread that reads
  const Source source(path, [&] {
    reading.wait(nullptr);
    if (is_added || reading.load()->status().stage != Stage::complete) return;
    is_added = true;
    append(path, rest);
  });
  reading = &source;
  reading.notify_all();
  EXPECT_TRUE(eventually([&] { return source.status().stage == Stage::complete && !source.status().followed; }));
  EXPECT_EQ(source.document()->event_count(), load(memory_file(bytes), "a")->events.count());
}

std::vector<std::byte> written(const Trace& trace) {
  std::vector<std::byte> bytes;
  TraceWriter writer(memory_sink(bytes), trace.header);
  writer.extend_tables(trace.tables);
  for (std::size_t i = 0; i < trace.events.count(); ++i) static_cast<void>(writer.append(trace.events[i]));
  writer.set_losses(trace.losses);
  writer.set_folded(trace.folded);
  EXPECT_TRUE(writer.finish());
  return bytes;
}

/// PyTorch with its segments on a device whose driver was recorded, and a usage sample: 10 MiB. From a flight recorder.
std::vector<std::byte> recording_of_two_levels(std::size_t more = 0) {
  memreel::testing::TraceBuilder build;
  const HeapId torch{1}, driver = build.heap("cuda.driver", Level::driver, 0);
  const OriginId of_torch = build.origin(torch), of_driver = build.origin(driver);
  const AllocationId library = build.alloc(of_driver, {0x5000000}, 1_MiB);
  build.alloc(of_driver, {0x1000000}, 2_MiB, build.stack({"cudaMalloc@a.cpp:1"}));
  build.event(EventKind::segment_alloc, of_torch, {0x1000000}, 2_MiB);
  build.alloc(of_torch, {0x1000000}, 4_KiB);
  build.alloc(of_driver, {0x2000000}, 4_MiB);
  build.free(library);
  std::mt19937_64 random(1);
  for (std::size_t i = 0; i < more; ++i)
    build.free(build.alloc(of_torch, {0x1001000 + 512 * (random() % 1024)}, {512 * (1 + random() % 1024)}));
  build.push({.kind = EventKind::memory_info, .origin = of_driver, .size = 10_MiB, .value = 5U << 20U});
  build.trace().losses = {.folded_events = 2, .folded_until = Nanoseconds{1}};
  build.trace().folded = {.until = Nanoseconds{1}, .interval = Nanoseconds{1}};
  build.trace().folded.rows = {{.heap = torch, .allocations = 1, .frees = 1, .allocated = 4_KiB, .freed = 4_KiB}};
  return written(build.trace());
}

TEST_F(SourceOf, WhatAFrameworkGotFromTheDriverIsCountedOnce) {
  const Source source(file("a.reel", recording_of_two_levels()));
  ASSERT_TRUE(eventually([&] { return source.status().stage == Stage::complete; }));
  const auto document = source.document();
  EXPECT_TRUE(document->complete);
  EXPECT_TRUE(document->renumbered);
  const HeapId torch{1}, driver{2};
  ASSERT_NE(document->series(driver), nullptr);
  EXPECT_EQ(document->series(driver)->peak_live, (5_MiB).count) << "of the library's 1 MiB and the 4 MiB";
  EXPECT_EQ(document->series(torch)->peak_reserved, (2_MiB).count);
  EXPECT_EQ(unattributed(*document, torch, document->event_count()), 4_MiB) << "10 used, 2 PyTorch's, 4 the driver's";

  // Events read by jobs have the same numbers.
  const std::shared_ptr<const Trace> trace = document->trace;
  ASSERT_EQ(trace->events.count(), document->event_count());
  ASSERT_EQ(trace->events.allocation_count(), document->allocation_count());
  for (std::uint32_t e = 0; e < document->event_count(); ++e) EXPECT_EQ(trace->events.kind(e), document->kind(e)) << e;

  // A flight recorder's totals are unchanged: leaks are judged by them.
  ASSERT_EQ(document->trace->folded.rows.size(), 1U);
  EXPECT_EQ(trace->folded, document->trace->folded);
  EXPECT_EQ(trace->losses.folded_events, 2U);
}

/// By this process, from files; none: not known here.
std::optional<std::uint64_t> bytes_read() {
  std::ifstream counters("/proc/self/io");
  std::string name;
  std::uint64_t bytes = 0;
  if (!(counters >> name >> bytes) || name != "rchar:") return std::nullopt;
  return bytes;
}

TEST_F(SourceOf, AFileIsReadOnceForThePictureAndTheVerdict) {
  if (!bytes_read()) GTEST_SKIP() << "the kernel does not count what is read";
  std::atomic<float> share{0};
  const Progress progress({}, share);
  for (const bool has_levels : {false, true}) {
    const auto path = file(has_levels ? "b.reel" : "a.reel", has_levels ? recording_of_two_levels(200'000)
                                                                        : memreel::testing::possible_trace(3, 200'000));
    const std::uint64_t before = *bytes_read();
    const Source source(path);
    ASSERT_TRUE(eventually([&] { return source.status().stage == Stage::complete; }));
    const auto document = source.document();
    EXPECT_TRUE(document->renumbered || !has_levels);
    const auto known = classify_trace(*document->whole, progress);
    ASSERT_TRUE(known && known->problem.empty());
    const auto findings = judge_trace(*document->whole, progress, {});
    ASSERT_TRUE(findings);
    EXPECT_EQ(findings->of_allocation.size(), document->allocation_count());
    EXPECT_LT(static_cast<double>(*bytes_read() - before), 1.5 * static_cast<double>(std::filesystem::file_size(path)));
  }
}

TEST_F(SourceOf, ATraceIsAsItIsLoadedForJudging) {
  for (const bool has_levels : {false, true}) {
    const auto path = has_levels ? file("b.reel", recording_of_two_levels())
                                 : file("a.reel", memreel::testing::possible_trace(1, 4'000));
    const Source source(path);
    ASSERT_TRUE(eventually([&] { return source.status().stage == Stage::complete; }));
    const Trace& collected = source.document()->whole->trace();
    Trace loaded = *load_checked(*open_file(path), "the trace");
    if (may_be_completed(loaded.header, loaded.tables, may_lack_frees(loaded.losses, loaded.read)))
      complete_trace(loaded);
    EXPECT_EQ(collected.events, loaded.events);
    EXPECT_EQ(collected.losses, loaded.losses);
    EXPECT_EQ(collected.folded, loaded.folded);
    EXPECT_EQ(collected.read, loaded.read);
    EXPECT_EQ(collected.header, loaded.header);
    EXPECT_EQ(collected.file_size, loaded.file_size);
    EXPECT_EQ(collected.tables.strings.size(), loaded.tables.strings.size());
    EXPECT_EQ(collected.tables.origins.size(), loaded.tables.origins.size());
  }
}

/// PyTorch's allocator gets a segment, and releases it without being short of memory.
Trace trace_with_a_release(const std::string& source) {
  memreel::testing::TraceBuilder build;
  const OriginId origin = build.origin(HeapId{1});
  build.event(EventKind::segment_alloc, origin, {0x1000000}, 2_MiB);
  build.free(build.alloc(origin, {0x1000000}, 4_KiB));
  build.event(EventKind::segment_free, origin, {0x1000000}, 2_MiB);
  build.trace().header.source = source;
  build.trace().tables.heaps[1].observes_completion = true;
  return build.trace();
}

TEST_F(SourceOf, ARecordingWhoseProgramWasKilledIsCompleted) {
  const auto bytes = recording_of_two_levels();
  constexpr std::size_t last = 8;  // of the footer
  const auto path = file("killed.reel", std::span(bytes).first(bytes.size() - last));
  const Source source(path);
  ASSERT_TRUE(eventually([&] { return source.status().stage == Stage::complete; }));
  EXPECT_TRUE(source.status().followed);
  EXPECT_FALSE(source.document()->renumbered) << "it may grow at once";
  ASSERT_TRUE(eventually([&] { return source.status().still; }));
  EXPECT_TRUE(source.document()->renumbered);
  EXPECT_EQ(source.document()->series(HeapId{1})->peak_reserved, (2_MiB).count);
  append(path, std::span(bytes).last(last));
  EXPECT_TRUE(eventually([&] { return !source.status().followed; })) << "it is still followed";
  EXPECT_TRUE(source.document()->renumbered);
}

TEST_F(SourceOf, TheHeapOfTheVerdictIsKnownBeforeTheEnd) {
  const auto bytes = recording_of_two_levels();
  const auto path = file("killed.reel", std::span(bytes).first(bytes.size() - 8));
  const Source source(path);
  ASSERT_TRUE(eventually([&] { return source.status().stage == Stage::complete; }));
  ASSERT_GT(source.document()->heaps.size(), 1U);
  EXPECT_EQ(deciding_heap(*source.document()), HeapId{1}) << "the framework's, though the driver's is larger";
  ASSERT_TRUE(eventually([&] { return source.status().still; }));
  EXPECT_EQ(deciding_heap(*source.document()), HeapId{1});
}

TEST_F(SourceOf, ARecordingHasTheCallsThatPyTorchLeavesNoRecordOf) {
  const Source source(file("a.reel", written(trace_with_a_release("interpose"))));
  ASSERT_TRUE(eventually([&] { return source.status().stage == Stage::complete; }));
  const auto document = source.document();
  EXPECT_TRUE(document->renumbered);
  ASSERT_EQ(document->columns.notable.size(), 1U);
  EXPECT_EQ(document->other(document->columns.notable[0]).event.kind, EventKind::empty_cache);
  ASSERT_EQ(document->columns.emptied.size(), 1U) << "what the timeline ticks";
  EXPECT_EQ(document->columns.emptied[0], document->columns.notable[0]);
  const std::uint32_t at = document->columns.other[document->columns.emptied[0]].at;
  EXPECT_EQ(document->rows_before(document->columns.emptied, at), 0U);
  EXPECT_EQ(document->rows_before(document->columns.emptied, at + 1), 1U);

  // The history importer has already found them.
  const Source history(file("b.reel", written(trace_with_a_release("torch.snapshot"))));
  ASSERT_TRUE(eventually([&] { return history.status().stage == Stage::complete; }));
  EXPECT_TRUE(history.document()->columns.notable.empty());
}

TEST_F(SourceOf, OneLevelIsShownAsItWasRecorded) {
  memreel::testing::TraceBuilder build;
  const OriginId origin = build.origin(HeapId{1});
  build.free(build.alloc(origin, {1024}, 512_B));
  build.alloc(origin, {1024}, 256_B);
  const Source source(file("a.reel", written(build.trace())));
  ASSERT_TRUE(eventually([&] { return source.status().stage == Stage::complete; }));
  EXPECT_FALSE(source.document()->renumbered);
  EXPECT_EQ(source.document()->event_count(), build.trace().events.count());
}

TEST_F(SourceOf, WhatNoDeviceHasFailsWithItsReason) {
  memreel::testing::TraceBuilder build;
  const OriginId origin = build.origin(HeapId{1});
  build.alloc(origin, {0x1000}, {std::uint64_t{1} << 50U});
  const Source source(file("a.reel", written(build.trace())));
  ASSERT_TRUE(eventually([&] { return source.status().stage == Stage::failed; }));
  EXPECT_NE(source.status().error->message().find("event 0 (alloc) has a size that no device has"), std::string::npos)
      << source.status().error->message();
  EXPECT_TRUE(source.document()->empty());
}

TEST_F(SourceOf, WhatAsksForMoreMemoryThanAllowedFails) {
  const auto bytes = memreel::testing::possible_trace(1, 4'000);
  const Source source(file("a.reel", bytes), {}, 64_KiB);
  ASSERT_TRUE(eventually([&] { return source.status().stage == Stage::failed; }));
  EXPECT_NE(source.status().error->message().find("--max-memory"), std::string::npos);
}

/// A trace of two events, with a name of 128 KiB.
std::vector<std::byte> with_large_tables() {
  memreel::testing::TraceBuilder build;
  const OriginId origin = build.origin(HeapId{1});
  build.free(build.alloc(origin, {0x1000}, 1_MiB, build.stack({std::string(std::size_t{1} << 17U, 'f') + "@a.py:1"})));
  return written(build.trace());
}

TEST_F(SourceOf, TablesAreHeldToTheSameLimit) {
  const auto path = file("a.reel", with_large_tables());
  const Source refused(path, {}, 64_KiB);
  ASSERT_TRUE(eventually([&] { return refused.status().stage == Stage::failed; }));
  EXPECT_NE(refused.status().error->message().find("holds tables that need more than 64.00 KiB"), std::string::npos)
      << refused.status().error->message();
  const Source shown(path, {}, 1_MiB);
  ASSERT_TRUE(eventually([&] { return shown.status().stage == Stage::complete; }));
}

TEST_F(SourceOf, RanksAndPredictionsAreHeldToTheSameLimit) {
  const auto path = file("rank0.reel", with_large_tables());
  const auto problem_of_rank = [&](Bytes limit) {
    const Ranks ranks(
        {path}, [] {}, limit);
    EXPECT_TRUE(eventually([&] { return ranks.complete(); }));
    return ranks.series(0)->problem;
  };
  EXPECT_NE(problem_of_rank(64_KiB).find("more than 64.00 KiB"), std::string::npos) << problem_of_rank(64_KiB);
  EXPECT_EQ(problem_of_rank(1_MiB), "");
  const auto problem_of_prediction = [&](Bytes limit) {
    const PredictionJob job(
        {{.names = {"batch"}, .at = {1}, .file = path.string()}}, {}, "", [] {}, limit);
    EXPECT_TRUE(eventually([&] { return job.result() != nullptr; }));
    return job.result()->problem;
  };
  EXPECT_NE(problem_of_prediction(64_KiB).find("more than 64.00 KiB"), std::string::npos);
  EXPECT_EQ(problem_of_prediction(1_MiB).find("more than"), std::string::npos);
}

TEST_F(SourceOf, CanBeGivenUpAtAnyTime) {
  const auto bytes = memreel::testing::possible_trace(6, 20'000, {.events_per_block = 100});
  const auto path = file("a.reel", bytes);
  for (int i = 0; i < 10; ++i) {
    const Source source(path);
    std::this_thread::sleep_for(std::chrono::milliseconds(i));
  }
}

}  // namespace
}  // namespace memreel::viewer
