// SPDX-License-Identifier: Apache-2.0
// Writes golden files: make_golden DIRECTORY. Those that are there are never written again: for a new version take all,
// for fields that were added within one take those of the case that has them.
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <utility>

#include "formats/reader/trace_reader.h"
#include "formats/writer/trace_writer.h"
#include "tests/golden/dump.h"
#include "tests/unit/formats/random_history.h"

namespace memreel {
namespace {

Header header_of(std::string name) {
  Header header{
      .producer = "memreel", .source = "golden", .source_name = std::move(name), .host = "host", .process = 42};
  if (header.source_name == "job") {
    header.start = Nanoseconds{1'763'901'562'000'000'001};
    header.environment = {{"LOCAL_RANK", "1"}, {"RANK", "3"}, {"SLURM_JOB_NAME", ""}, {"WORLD_SIZE", "16"}};
    header.versions = {{"cuda.driver", "570.86.15"}, {"torch", "2.8.0+cu128"}};
  }
  return header;
}

/// Every kind of event and every field of every row at least once.
Result<void> write_kinds(TraceWriter writer) {
  const HeapId driver = writer.intern(Heap{.name = writer.intern("cuda.driver"), .observes_completion = false});
  const HeapId torch = writer.intern(
      Heap{.name = writer.intern("torch.cuda"), .level = Level::framework, .device = 1, .parent = driver});
  const ThreadId thread = writer.intern(Thread{.tid = 4711, .name = writer.intern("main")});
  const StreamId stream = writer.intern(Stream{.handle = 0x55AA00});
  const PoolId pool =
      writer.intern(Pool{.name = writer.intern("graph"), .key_high = 1, .key_low = 7, .inferred = true});
  const OriginId in_torch = writer.intern(Origin{.heap = torch, .pool = pool, .stream = stream, .thread = thread});
  const OriginId in_driver = writer.intern(Origin{.heap = driver, .thread = thread});
  const auto python = [&](const char* function, const char* file, std::uint32_t line, StackId caller) {
    const Frame frame{.function = writer.intern(function), .file = writer.intern(file), .line = line};
    return writer.intern(Stack{.frame = writer.intern(frame), .caller = caller});
  };
  const StackId outer = python("main", "train.py", 10, StackId::none);
  const StackId inner = python("forward", "model.py", 99, outer);
  const ModuleId library = writer.intern(Module{
      .path = writer.intern("/usr/lib/libc10.so"), .build_id = "\x01\x02", .base = {0x7F00'0000'0000}, .size = 4_KiB});
  const StackId native =
      writer.intern(Stack{.frame = writer.intern(Frame{.module = library, .module_offset = 0x123}), .caller = inner});
  const auto step = [&](MarkPhase phase) {
    return std::uint64_t{index(writer.intern(Mark{.name = writer.intern("step"), .phase = phase}))};
  };
  const SettingsId chosen =
      writer.intern(Settings{.entries = {{writer.intern("expandable_segments"), writer.intern("True")},
                                         {writer.intern("max_split_size"), writer.intern("-1")}}});

  Nanoseconds time{1'700'000'000'000'000'000};
  const auto append = [&](Event event) {
    event.time = (time += Nanoseconds(1500));
    return writer.append(event);
  };
  using enum EventKind;
  append({.kind = settings, .origin = in_torch, .value = index(chosen)});
  append({.kind = mark, .origin = in_torch, .value = step(MarkPhase::begin)});
  append({.kind = segment_alloc, .origin = in_torch, .stack = inner, .address = {0x7F10'0000'0000}, .size = 2_MiB});
  const AllocationId first =
      append({.kind = alloc, .origin = in_torch, .stack = native, .address = {0x7F10'0000'0000}, .size = 1000_B});
  append({.kind = alloc, .origin = in_torch, .stack = inner, .address = {0x7F10'0000'0400}, .size = 512_B});
  append({.kind = free_requested, .origin = in_torch, .stack = outer, .allocation = first});
  append({.kind = free_completed, .origin = in_torch, .stack = outer, .allocation = first});
  append({.kind = free_requested, .origin = in_torch, .address = {0x7F10'0000'0400}});
  append({.kind = free_requested, .origin = in_torch, .address = {0x7F10'0011'1000}, .size = 77_B});
  append({.kind = free_completed, .origin = in_torch, .address = {0x7F10'0011'1000}, .size = 77_B});
  append({.kind = pool_begin, .origin = in_torch});
  append({.kind = pool_end, .origin = in_torch});
  append({.kind = sync, .origin = in_torch, .value = sync_stream});
  append({.kind = sync, .origin = in_torch, .value = sync_device});
  append({.kind = sync, .origin = in_driver, .value = sync_edge + index(stream)});
  append({.kind = empty_cache, .origin = in_torch});
  append({.kind = free_completed, .origin = in_torch, .address = {0x7F10'0000'0400}});
  append({.kind = segment_map, .origin = in_torch, .address = {0x7F20'0000'0000}, .size = 2_MiB});
  append({.kind = segment_unmap, .origin = in_torch, .address = {0x7F20'0000'0000}, .size = 2_MiB});
  append({.kind = segment_free, .origin = in_torch, .address = {0x7F10'0000'0000}, .size = 2_MiB});
  append({.kind = alloc, .origin = in_driver, .address = {0x100}, .size = 1_B});
  append({.kind = free_requested, .origin = in_driver, .address = {0x100}});
  append({.kind = alloc_failed, .origin = in_torch, .stack = inner, .size = 1024_GiB, .value = 123456789});
  append({.kind = memory_info, .origin = in_driver, .size = 99_B, .value = 100});
  append({.kind = mark, .origin = in_torch, .value = step(MarkPhase::end)});
  append({.kind = mark, .origin = in_torch, .value = step(MarkPhase::instant)});
  writer.set_losses({.ring_full = 1,
                     .stack_table_full = 2,
                     .hook_refused = 3,
                     .unknown_actions = 4,
                     .preexisting_allocations = 5,
                     .began_late = true,
                     .history_overflowed = true});
  return writer.finish();
}

/// What a flight recorder keeps: what was live, sums of what was before, what came then.
Result<void> write_flight(TraceWriter writer) {
  const HeapId heap = writer.intern(Heap{.name = writer.intern("cuda.driver"), .observes_completion = false});
  const OriginId origin = writer.intern(Origin{.heap = heap});
  const auto stack_of = [&](const char* function, std::uint32_t line) {
    const Frame frame{.function = writer.intern(function), .file = writer.intern("train.py"), .line = line};
    return writer.intern(Stack{.frame = writer.intern(frame)});
  };
  const StackId step = stack_of("step", 7), leak = stack_of("cache", 41);
  constexpr Nanoseconds begin{1'700'000'000'000'000'000}, hour = std::chrono::hours(1);
  writer.set_folded(
      {.begin = begin,
       .until = begin + 2 * hour,
       .interval = hour,
       .rows = {{.heap = heap, .stack = step, .allocations = 1000, .frees = 999, .allocated = 1_GiB, .freed = 1023_MiB},
                {.heap = heap, .stack = leak, .allocations = 1, .allocated = 4_KiB},
                {.interval = 1, .heap = heap, .stack = step, .frees = 1, .freed = 1_MiB}}});
  writer.append({.kind = EventKind::alloc,
                 .origin = origin,
                 .stack = leak,
                 .time = begin + hour / 2,
                 .address = {0x1000},
                 .size = 4_KiB});
  const AllocationId last = writer.append({.kind = EventKind::alloc,
                                           .origin = origin,
                                           .stack = step,
                                           .time = begin + 2 * hour,
                                           .address = {0x2000},
                                           .size = 1_MiB});
  writer.append({.kind = EventKind::free_requested,
                 .origin = origin,
                 .allocation = last,
                 .time = begin + 2 * hour + Nanoseconds(5)});
  writer.set_losses({.folded_events = 2000, .folded_until = begin + 2 * hour, .folded_left_out = 3});
  return writer.finish();
}

/// A pool of the program's own that is destroyed with something live in it, and made again.
Result<void> write_pools(TraceWriter writer) {
  const HeapId heap = writer.intern(Heap{.name = writer.intern("mine"), .level = Level::framework});
  const OriginId origin = writer.intern(Origin{.heap = heap});
  Nanoseconds time{1'700'000'000'000'000'000};
  const auto append = [&](Event event) {
    event.origin = origin;
    event.time = (time += Nanoseconds(1500));
    return writer.append(event);
  };
  append({.kind = EventKind::pool_created});
  append({.kind = EventKind::segment_alloc, .address = {0x10000}, .size = 1_MiB});
  const AllocationId block = append({.kind = EventKind::alloc, .address = {0x10200}, .size = 77_B});
  append({.kind = EventKind::pool_destroyed});
  append({.kind = EventKind::free_requested, .allocation = block});
  append({.kind = EventKind::free_completed, .allocation = block});
  append({.kind = EventKind::segment_free, .address = {0x10000}, .size = 1_MiB});
  append({.kind = EventKind::pool_created});
  return writer.finish();
}

Result<void> write_random(TraceWriter writer) {
  testing::RandomHistory history(writer, 2024);
  history.append(250);
  return writer.finish();
}

Result<void> make(const std::filesystem::path& directory) {
  const auto make_one = [&](const char* name, const WriterOptions& options, auto write) -> Result<void> {
    const auto file = directory / (std::string(name) + ".reel");
    auto sink = atomic_file_sink(file);
    if (!sink) return sink.error();
    if (auto written = write(TraceWriter(*std::move(sink), header_of(name), options)); !written) return written;
    auto trace = load(file);
    if (!trace) return trace.error();
    std::ofstream(std::filesystem::path(file).replace_extension(".txt")) << testing::dump(*trace);
    return {};
  };
  if (auto made = make_one("kinds", {.events_per_block = 16, .events_per_keyframe = 16}, write_kinds); !made)
    return made;
  if (auto made = make_one("random", {.events_per_block = 60, .events_per_keyframe = 120}, write_random); !made)
    return made;
  if (auto made = make_one("flight", {}, write_flight); !made) return made;
  if (auto made = make_one("pools", {}, write_pools); !made) return made;
  return make_one("job", {}, [](TraceWriter writer) { return writer.finish(); });
}

}  // namespace
}  // namespace memreel

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: make_golden DIRECTORY\n";
    return 2;
  }
  const auto made = memreel::make(argv[1]);
  if (!made) std::cerr << made.error().message() << '\n';
  return made ? 0 : 1;
}
