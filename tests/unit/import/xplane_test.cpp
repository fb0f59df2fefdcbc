// SPDX-License-Identifier: Apache-2.0
// Profiles of XLA programs.
#include <gtest/gtest.h>

#include <zlib.h>

#include <limits>

#include "formats/import/xplane/regions.h"
#include "formats/import/xplane/xplane.h"
#include "formats/model/stack_text.h"
#include "tests/unit/import/import_support.h"
#include "tests/unit/import/xplane_encoder.h"

namespace memreel::test {
namespace {

constexpr std::uint64_t region_base = 0x302000000;

/// Two allocations of 256 B in a 2 MiB region; the first is freed.
std::vector<ProfileEvent> two_allocations(AllocatorProfile& allocator) {
  return {allocator.alloc(10, region_base, 4, 256, 0), allocator.alloc(20, region_base + 256, 100, 256, 0),
          allocator.free(30, region_base, 4, 256, 256.0 / static_cast<double>(2 * mib - 256))};
}

std::string small_profile() {
  AllocatorProfile gpu("GPU_0_bfc");
  return profile({{.id = 7, .name = "python3", .start_ns = 1000, .events = two_allocations(gpu)}});
}

Trace imported(const std::string& file) {
  Result<Trace> trace = import_bytes(file);
  EXPECT_TRUE(trace) << (trace ? "" : trace.error().message());
  return trace ? *std::move(trace) : Trace{};
}

std::vector<Event> events_of(const Trace& trace, EventKind kind) {
  std::vector<Event> events;
  for (std::size_t i = 0; i < trace.events.count(); ++i)
    if (trace.events.kind(i) == kind) events.push_back(trace.events[i]);
  return events;
}

std::string setting(const Trace& trace, std::size_t heap, std::string_view key) {
  const Event event = events_of(trace, EventKind::settings).at(heap);
  for (const auto& [name, value] : trace.tables[SettingsId{static_cast<std::uint32_t>(event.value)}].entries)
    if (trace.tables[name] == key) return trace.tables[value];
  return "";
}

TEST(XPlane, EventsBecomeAllocationsOfTheirHeap) {
  const Trace trace = imported(small_profile());
  using enum EventKind;
  EXPECT_EQ(kinds(trace), (std::vector{settings, segment_alloc, alloc, memory_info, alloc, memory_info, free_requested,
                                       memory_info}));
  EXPECT_EQ(trace.header.source, "xplane");
  const Event first = events_of(trace, alloc)[0];
  EXPECT_EQ(first.address, Address{region_base});
  EXPECT_EQ(first.size, 4_B);
  EXPECT_EQ(first.time, Nanoseconds(1'000'000'000 + 1000 + 10));
  const Origin& origin = trace.tables[first.origin];
  const Heap& heap = trace.tables[origin.heap];
  EXPECT_EQ(trace.tables[heap.name], "GPU_0_bfc");
  EXPECT_EQ(heap.device, 0);
  EXPECT_EQ(heap.level, Level::framework);
  EXPECT_FALSE(heap.observes_completion);
  EXPECT_EQ(trace.tables[origin.thread].tid, 7U);
  EXPECT_EQ(trace.tables[trace.tables[origin.thread].name], "python3");
  EXPECT_EQ(events_of(trace, free_requested)[0].allocation, AllocationId{0});
  EXPECT_EQ(trace.losses, Losses{});
}

TEST(XPlane, SamplesHoldWhatTheAllocatorCounted) {
  const std::vector<Event> samples = events_of(imported(small_profile()), EventKind::memory_info);
  ASSERT_EQ(samples.size(), 3U);
  EXPECT_EQ(samples[1].size, 512_B);
  EXPECT_EQ(samples[2].size, 256_B);
  EXPECT_EQ(samples[2].value, (std::uint64_t{16} << 30U) - 256);
}

TEST(XPlane, RegionsAreDeducedAndSaySo) {
  const Trace trace = imported(small_profile());
  const Event region = events_of(trace, EventKind::segment_alloc)[0];
  EXPECT_EQ(region.address, Address{region_base});
  EXPECT_EQ(region.size, 2_MiB);
  EXPECT_EQ(frames_of(trace.tables, region.stack).at(0).function, xplane::region_frame);
  EXPECT_EQ(setting(trace, 0, "regions"), "deduced");
  EXPECT_EQ(setting(trace, 0, "allow_growth"), "true");
  EXPECT_EQ(setting(trace, 0, "memory_limit"), std::to_string(std::uint64_t{16} << 30U));
}

TEST(XPlane, MetricsTellAPreallocatedPool) {
  AllocatorProfile gpu("GPU_0_bfc", 100 * mib);
  const Trace trace =
      imported(profile({{.events = {gpu.alloc(1, region_base, 4, 256, 0), gpu.alloc(2, region_base + 256, 4, 256, 0),
                                    gpu.free(3, region_base, 4, 256, 256.0 / (100.0 * mib - 256))}}}));
  EXPECT_EQ(events_of(trace, EventKind::segment_alloc).at(0).size, 100_MiB);
  EXPECT_EQ(setting(trace, 0, "allow_growth"), "false");
}

TEST(XPlane, MetricsThatNoRegionsExplainLeaveThemUnknown) {
  AllocatorProfile gpu("GPU_0_bfc");
  const Trace trace =
      imported(profile({{.events = {gpu.alloc(1, region_base, 4, 256, 0), gpu.alloc(2, region_base + 256, 4, 256, 0),
                                    gpu.free(3, region_base, 4, 256, 0.25)}}}));
  EXPECT_TRUE(events_of(trace, EventKind::segment_alloc).empty());
  EXPECT_EQ(setting(trace, 0, "regions"), "unknown");
}

TEST(XPlane, RegionsDoubleAndTheirFreeSpaceDoesNotMerge) {
  AllocatorProfile gpu("GPU_0_bfc");
  // 2 MiB, then 8 MiB right behind it: too large for the 4 MiB that would have come next.
  const Trace trace = imported(profile(
      {{.events = {gpu.alloc(1, region_base, 4, 256, 0),
                   gpu.alloc(2, region_base + 2 * mib, 5 * mib, 5 * mib, 1 - 3.0 * mib / (5.0 * mib - 256)),
                   gpu.free(3, region_base + 2 * mib, 5 * mib, 5 * mib, (2.0 * mib - 256) / (10.0 * mib - 256))}}}));
  const auto regions = events_of(trace, EventKind::segment_alloc);
  ASSERT_EQ(regions.size(), 2U);
  EXPECT_EQ(regions[1].address, Address{region_base + 2 * mib});
  EXPECT_EQ(regions[1].size, 8_MiB);
}

TEST(XPlane, ARegionThatTheDeviceRefusedIsSmaller) {
  AllocatorProfile gpu("GPU_0_bfc");
  const std::uint64_t second = region_base + 1024 * mib, granted = 3774976;  // 0.9 * 4 MiB, in units of 256 B
  const double free = 2.0 * mib - 256 + static_cast<double>(granted - 3 * mib);
  const Trace trace = imported(
      profile({{.events = {gpu.alloc(1, region_base, 4, 256, 0),
                           gpu.alloc(2, second, 3 * mib, 3 * mib, static_cast<double>(granted - 3 * mib) / free)}}}));
  const auto regions = events_of(trace, EventKind::segment_alloc);
  ASSERT_EQ(regions.size(), 2U);
  EXPECT_EQ(regions[1].size.count, granted);
}

TEST(XPlane, NothingFreeHasNoMetric) {
  AllocatorProfile gpu("GPU_0_bfc");
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Trace trace = imported(profile({{.events = {gpu.alloc(1, region_base, 2 * mib, 2 * mib, nan)}}}));
  EXPECT_EQ(setting(trace, 0, "regions"), "deduced");
}

TEST(XPlane, EnclosingEventsAreTheStack) {
  AllocatorProfile gpu("GPU_0_bfc");
  std::vector<ProfileEvent> events{{.name = "$train.py:12 step", .begin_ns = 0, .duration_ns = 100},
                                   {.name = "$closed.py:1 before", .begin_ns = 1, .duration_ns = 2},
                                   {.name = "$odd", .begin_ns = 4, .duration_ns = 50},
                                   {.name = "Execute (jit_f)", .begin_ns = 5, .duration_ns = 20}};
  ProfileEvent allocation = gpu.alloc(10, region_base, 4, 256, 0);
  for (const auto& [name, value] :
       {std::pair{"tf_op", "dense/MatMul"}, {"region_type", "output"}, {"shape", "[8,128]"}})
    allocation.stats.emplace_back(name, std::string(value));
  allocation.stats.emplace_back("data_type", std::uint64_t{1});
  events.push_back(allocation);
  const Trace trace = imported(profile({{.events = events}}));
  const auto frames = frames_of(trace.tables, events_of(trace, EventKind::alloc)[0].stack);
  std::vector<std::string> texts;
  texts.reserve(frames.size());
  for (const FrameText& frame : frames) texts.push_back(text_of(frame));
  EXPECT_EQ(texts, (std::vector<std::string>{"output, float32, [8,128]", "dense/MatMul", "Execute (jit_f)", "$odd",
                                             "step (train.py:12)"}));
}

TEST(XPlane, AnEmptyTensorDescribesNoMemory) {
  AllocatorProfile gpu("GPU_0_bfc");
  ProfileEvent allocation = gpu.alloc(10, region_base, 4, 256, 0);
  for (const auto& [name, value] : {std::pair{"tf_op", "_EagerConst"}, {"region_type", "dynamic"}, {"shape", "[0]"}})
    allocation.stats.emplace_back(name, std::string(value));
  allocation.stats.emplace_back("data_type", std::uint64_t{1});
  const Trace trace = imported(profile({{.events = {allocation}}}));
  const auto frames = frames_of(trace.tables, events_of(trace, EventKind::alloc)[0].stack);
  ASSERT_EQ(frames.size(), 1U);
  EXPECT_EQ(text_of(frames[0]), "_EagerConst");
}

TEST(XPlane, EventsOfAllThreadsAreInOrder) {
  AllocatorProfile gpu("GPU_0_bfc");
  auto events = two_allocations(gpu);
  const ProfileEvent last = events[2];
  events.pop_back();
  std::swap(events[0], events[1]);  // nor must those of one thread be
  const Trace trace = imported(profile({{.id = 1, .events = {last}}, {.id = 2, .events = events}}));
  EXPECT_TRUE(std::ranges::is_sorted(trace.events.times()));
  EXPECT_EQ(trace.losses, Losses{});
  EXPECT_EQ(count(trace, EventKind::segment_alloc), 1U);
}

TEST(XPlane, EachAllocatorIsAHeapHostMemoryLast) {
  AllocatorProfile host("xla_gpu_host_bfc"), collective("GPU_collectivememory_1_bfc"), gpu("GPU_0_bfc"),
      platform("XLA_backend_2_bfc");
  const Trace trace = imported(
      profile({{.events = {host.alloc(1, region_base, 4, 256, 0), collective.alloc(2, 2 * region_base, 4, 256, 0),
                           gpu.alloc(3, 3 * region_base, 4, 256, 0), platform.alloc(4, 4 * region_base, 4, 256, 0)}}}));
  std::vector<std::int32_t> devices;
  for (std::size_t i = 1; i < trace.tables.heaps.size(); ++i) devices.push_back(trace.tables.heaps[i].device);
  EXPECT_EQ(devices, (std::vector<std::int32_t>{0, 1, 2, -1}));
}

TEST(XPlane, WhatWasHeldBeforeIsALoss) {
  AllocatorProfile gpu("GPU_0_bfc");
  gpu.in_use = 1024;
  const Trace trace = imported(
      profile({{.events = {gpu.alloc(1, region_base, 4, 256, 0), gpu.free(2, region_base + 4096, 300, 512, 0)}}}));
  EXPECT_TRUE(trace.losses.began_late);
  EXPECT_EQ(trace.losses.preexisting_allocations, 1U);
  EXPECT_EQ(trace.losses.unmatched_frees, 0U);
  const Event before = events_of(trace, EventKind::alloc)[0];
  EXPECT_EQ(before.address, Address{region_base + 4096});
  EXPECT_EQ(before.size, 300_B);
  EXPECT_EQ(frames_of(trace.tables, before.stack).at(0).function, preexisting_frame);
  EXPECT_EQ(events_of(trace, EventKind::memory_info)[0].size, 1024_B);
  EXPECT_EQ(setting(trace, 0, "regions"), "unknown");
}

TEST(XPlane, DroppedEventsShowInTheBytesInUse) {
  AllocatorProfile gpu("GPU_0_bfc");
  auto events = two_allocations(gpu);
  events.erase(events.begin() + 1);
  EXPECT_EQ(imported(profile({{.events = events}})).losses.ring_full, 1U);
}

TEST(XPlane, IncompleteEventsAreCounted) {
  AllocatorProfile gpu("GPU_0_bfc");
  auto events = two_allocations(gpu);
  events.push_back(
      {.name = "MemoryAllocation", .begin_ns = 40, .stats = {{"allocator_name", std::string("GPU_0_bfc")}}});
  EXPECT_EQ(imported(profile({{.events = events}})).losses.unknown_actions, 1U);
}

TEST(XPlane, StepsAndWaitsAreMarksAndFailuresAreLosses) {
  AllocatorProfile gpu("GPU_0_bfc");
  const std::string retry = "AllocatorRetry::AllocateRaw";
  const Trace trace = imported(profile(
      {{.events = {{.name = "train", .begin_ns = 0, .duration_ns = 50, .stats = {{"step_num", std::uint64_t{3}}}},
                   gpu.alloc(10, region_base, 4, 256, 0),
                   {.name = retry, .begin_ns = 60, .duration_ns = 10},
                   {.name = retry, .begin_ns = 80, .duration_ns = 10},
                   gpu.alloc(85, region_base + 256, 4, 256, 0)}}}));
  std::vector<std::string> marks;
  for (const Event& event : events_of(trace, EventKind::mark)) {
    const Mark& mark = trace.tables[MarkId{static_cast<std::uint32_t>(event.value)}];
    marks.push_back(trace.tables[mark.name] + (mark.phase == MarkPhase::begin ? " begins" : " ends"));
  }
  EXPECT_EQ(marks, (std::vector<std::string>{"train begins", "train ends", "waiting for memory begins",
                                             "waiting for memory ends", "waiting for memory begins",
                                             "waiting for memory ends"}));
  EXPECT_EQ(trace.losses.unsized_failures, 1U);
}

std::string gzipped(const std::string& content) {
  std::string result(content.size() + 1024, '\0');
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, 31, 9, Z_DEFAULT_STRATEGY);
  std::string input = content;
  stream.next_in = reinterpret_cast<Bytef*>(input.data());
  stream.avail_in = static_cast<uInt>(input.size());
  stream.next_out = reinterpret_cast<Bytef*>(result.data());
  stream.avail_out = static_cast<uInt>(result.size());
  deflate(&stream, Z_FINISH);
  result.resize(stream.total_out);
  deflateEnd(&stream);
  return result;
}

TEST(XPlane, CompressedProfilesAreRecognisedByTheirContent) {
  const Trace plain = imported(small_profile());
  EXPECT_EQ(imported(gzipped(small_profile())).events, plain.events);
}

bool recognised(std::string_view beginning) {
  return xplane::looks_like_xspace(std::as_bytes(std::span(beginning.data(), beginning.size())));
}

TEST(XPlane, OtherFilesAreNotTakenForProfiles) {
  EXPECT_TRUE(recognised(small_profile()));
  EXPECT_FALSE(recognised(""));
  EXPECT_FALSE(recognised("\n"));
  EXPECT_FALSE(recognised("\n\n\n\n\n"));
  EXPECT_FALSE(recognised("\x0A\x80\x80\x80\x00\x09MEMREEL\n"));
  EXPECT_FALSE(recognised("\x0A\x05\x12\x03\x01\x02\x03"));
  EXPECT_FALSE(recognised("\x80\x04"));
}

TEST(XPlane, EveryTruncationIsRefusedInOneLine) {
  const std::string whole = small_profile();
  std::size_t accepted = 0;
  for (std::size_t length = 24; length < whole.size(); ++length) {
    const std::string message = refusal(whole.substr(0, length));
    if (message.empty()) {
      ++accepted;
      continue;
    }
    ASSERT_EQ(message.find('\n'), std::string::npos);
    ASSERT_NE(message.find("byte "), std::string::npos) << message;
  }
  EXPECT_EQ(accepted, 2U) << "behind each of the two planes the file is whole";
}

TEST(XPlane, DeclaredSizesAreNotBelieved) {
  std::string file = "\x0A\xFF\xFF\xFF\xFF\x07\x12\x09/host:CPU";
  EXPECT_NE(refusal(file).find("cut off"), std::string::npos);
  file = "\x0A\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7F\x12\x09/host:CPU";
  EXPECT_NE(refusal(file).find("malformed"), std::string::npos);
}

TEST(XPlane, AProfileWithoutMemoryEventsSaysHowToGetThem) {
  const std::string message = refusal(profile({{.events = {{.name = "f", .duration_ns = 5}}}}));
  EXPECT_NE(message.find("no memory events"), std::string::npos);
  EXPECT_NE(message.find("host_tracer_level"), std::string::npos);
}

TEST(XPlane, DeepNestingIsCutOff) {
  AllocatorProfile gpu("GPU_0_bfc");
  std::vector<ProfileEvent> events(5000, {.name = "f", .begin_ns = 1, .duration_ns = 100});
  events.push_back(gpu.alloc(2, region_base, 4, 256, 0));
  const Trace trace = imported(profile({{.events = events}}));
  EXPECT_EQ(frames_of(trace.tables, events_of(trace, EventKind::alloc)[0].stack).size(), 1024U);
}

}  // namespace
}  // namespace memreel::test
