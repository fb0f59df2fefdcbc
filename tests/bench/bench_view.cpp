// SPDX-License-Identifier: Apache-2.0
// The viewer's model on a long trace: the cost of indexing on top of reading, and the latency of what panes wait for,
// each compared with the direct computation. `bench_view [EVENTS]`; `memreel view --bench-frames` measures the window
// itself. A file name as second argument writes the trace there and keeps it.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "formats/reader/trace_index.h"
#include "formats/writer/trace_writer.h"
#include "tests/bench/synthetic.h"
#include "viewer/model/axis.h"
#include "viewer/model/document_builder.h"
#include "viewer/model/heap_at.h"

namespace memreel::viewer {
namespace {

using Clock = std::chrono::steady_clock;

double seconds(const std::function<void()>& work) {
  const auto start = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::uint64_t resident() {
  std::ifstream statm("/proc/self/statm");
  std::uint64_t total = 0, pages = 0;
  statm >> total >> pages;
  return pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

/// A random history written event by event: memory use is its live allocations.
Result<void> write_long_trace(const std::filesystem::path& path, std::uint64_t events) {
  std::filesystem::remove(path);
  auto sink = atomic_file_sink(path);
  if (!sink) return std::move(sink).error();
  TraceWriter writer(*std::move(sink), {.producer = "bench_view", .source = "synthetic", .source_name = "long"});
  const HeapId heap = writer.intern(Heap{.name = writer.intern("torch.cuda"), .level = Level::framework});
  const OriginId origin = writer.intern(Origin{.heap = heap});
  std::vector<StackId> stacks;
  for (std::uint32_t i = 1; i <= 500; ++i)
    stacks.push_back(writer.intern(
        Stack{.frame = writer.intern(Frame{
                  .function = writer.intern("f" + std::to_string(i)), .file = writer.intern("train.py"), .line = i})}));
  struct Live {
    AllocationId id = AllocationId::none;
    std::uint64_t slot = 0;
  };
  constexpr std::uint64_t slots = 8192, slot_bytes = 2U << 20U;
  std::vector<Live> live;
  std::vector<std::uint64_t> free_slots;
  for (std::uint64_t s = slots; s-- > 0;) free_slots.push_back(s);
  synthetic::Random random(1);
  Nanoseconds time{};
  const Address base{0x7F00'0000'0000};
  static_cast<void>(writer.append(
      {.kind = EventKind::segment_alloc, .origin = origin, .address = base, .size = {slots * slot_bytes}}));
  for (std::uint64_t e = 1; e < events;) {
    time += std::chrono::microseconds(1 + random.below(10));
    if (live.empty() || (!free_slots.empty() && random.chance(2))) {
      const std::uint64_t slot = free_slots.back();
      free_slots.pop_back();
      const Event event{.kind = EventKind::alloc,
                        .origin = origin,
                        .stack = stacks[random.below(stacks.size())],
                        .time = time,
                        .address = base + Bytes{slot * slot_bytes},
                        .size = {random.log_uniform(512, slot_bytes)}};
      live.push_back({writer.append(event), slot});
      ++e;
    } else {
      std::swap(live[random.below(live.size())], live.back());
      for (const EventKind kind : {EventKind::free_requested, EventKind::free_completed})
        static_cast<void>(writer.append({.kind = kind, .origin = origin, .allocation = live.back().id, .time = time}));
      free_slots.push_back(live.back().slot);
      live.pop_back();
      e += 2;
    }
  }
  return writer.finish();
}

void read(const std::shared_ptr<ByteFile>& file,
          const std::function<void(const TraceReader&, const EventBatch&)>& take) {
  auto reader = TraceReader::open(file, "trace");
  if (!reader) return;
  for (EventBatch batch;;) {
    const auto more = reader->next(batch);
    if (!more || !*more) return;
    take(*reader, batch);
  }
}

double percentile(std::vector<double> values, double share) {
  std::ranges::sort(values);
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
}

void measure(const std::filesystem::path& path) {
  const auto file = open_file(path);
  if (!file) return;
  const double reading = seconds([&] { read(*file, [](const TraceReader&, const EventBatch&) {}); });
  const std::uint64_t before = resident();
  DocumentBuilder builder;
  std::shared_ptr<const Document> document;
  const double indexing = seconds([&] {
    auto reader = TraceReader::open(*file, "trace");
    if (!reader) return;
    Events all;
    for (EventBatch batch;;) {
      const auto more = reader->next(batch);
      if (!more || !*more) break;
      all.append(batch.events);
      builder.add(batch.events, all, reader->tables());
    }
    document =
        builder.publish(std::make_shared<const Trace>(trace_so_far(*reader, std::move(all), {(*file)->size()})), true);
  });
  if (!document || document->empty()) return;
  const auto events = static_cast<double>(document->event_count());
  std::printf("%.0f events, %u allocations\n", events, document->allocation_count());
  std::printf("read %.1f M events/s; read and indexed %.1f M events/s: %.2fx the time\n", events / reading / 1e6,
              events / indexing / 1e6, indexing / reading);
  std::printf("resident %.1f bytes for each event\n", static_cast<double>(resident() - before) / events);

  const HeapSeries& series = document->heaps.front();
  const std::int64_t first = document->first_time().count(), span = document->last_time().count() - first + 1;
  synthetic::Random random(2);
  std::vector<double> columns, states, replays;
  for (int i = 0; i < 300; ++i) {
    const std::int64_t length = std::max<std::int64_t>(span >> random.below(24), 1000);
    const std::int64_t begin =
        first + static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(span - length + 1)));
    columns.push_back(seconds([&] {
      static_cast<void>(series_columns(*document, series, Nanoseconds{begin}, Nanoseconds{begin + length}, 3840));
    }));
  }
  const double plain = seconds([&] {
    std::uint64_t highest = 0, now = 0;
    for (std::uint32_t e = 0; e < document->event_count(); ++e) {
      const auto id = document->allocation_of(e);
      if (!id) continue;
      const EventKind kind = document->kind(e);
      if (kind == EventKind::alloc) now += document->size_of(*id).count;
      if (kind == EventKind::free_requested) now -= document->size_of(*id).count;
      highest = std::max(highest, now);
    }
    if (highest == 1) std::printf("\n");  // keeps it from being optimized away
  });
  std::printf("3840 columns of the timeline: p50 %.2f ms, p99 %.2f ms; all events once %.0f ms: %.0fx\n",
              percentile(columns, 0.5) * 1e3, percentile(columns, 0.99) * 1e3, plain * 1e3,
              plain / percentile(columns, 0.5));
  const auto index = TraceIndex::open(*file, "trace");
  for (int i = 0; i < 200; ++i) {
    const auto event = static_cast<std::uint32_t>(random.below(document->event_count()));
    states.push_back(seconds([&] { static_cast<void>(heap_at(*document, series.heap, event)); }));
    if (index && i < 20) replays.push_back(seconds([&] { static_cast<void>(index->state_after(event)); }));
  }
  std::printf("heap at an instant: p50 %.2f ms, p99 %.2f ms; by the file's own keyframes p50 %.0f ms: %.0fx\n",
              percentile(states, 0.5) * 1e3, percentile(states, 0.99) * 1e3, percentile(replays, 0.5) * 1e3,
              percentile(replays, 0.5) / percentile(states, 0.5));
}

}  // namespace
}  // namespace memreel::viewer

int main(int argc, char** argv) {
  const std::uint64_t events = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 10'000'000;
  const bool keep = argc > 2;
  const std::filesystem::path path =
      keep ? std::filesystem::path(argv[2])
           : std::filesystem::temp_directory_path() / ("memreel-bench-view-" + std::to_string(::getpid()) + ".reel");
  if (const auto written = memreel::viewer::write_long_trace(path, events); !written) {
    std::fprintf(stderr, "%s\n", written.error().message().c_str());
    return 2;
  }
  memreel::viewer::measure(path);
  if (!keep) std::filesystem::remove(path);
  return 0;
}
