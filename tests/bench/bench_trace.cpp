// SPDX-License-Identifier: Apache-2.0
// Writing and reading speed of traces, and their size: a synthetic training loop, a synthetic random history, and the
// trace named by MEMREEL_TRACE.
//
// items_per_second counts events; "read" is load() of everything, file to columns.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "formats/reader/trace_index.h"
#include "formats/reader/trace_reader.h"
#include "formats/writer/trace_writer.h"
#include "tests/bench/synthetic.h"

namespace memreel {
namespace {

constexpr std::uint64_t events = 2'000'000;

std::vector<std::byte> written(const Trace& trace) {
  std::vector<std::byte> bytes;
  TraceWriter writer(memory_sink(bytes), trace.header);
  writer.extend_tables(trace.tables);
  for (std::size_t i = 0; i < trace.events.count(); ++i) {
    Event event = trace.events[i];
    // As recorders and importers see it: only the address of a free is known.
    if (is_free(event.kind)) event.allocation = AllocationId::none;
    writer.append(event);
  }
  if (auto finished = writer.finish(); !finished) std::fputs(finished.error().message().c_str(), stderr);
  return bytes;
}

/// A file that is deleted after the benchmark.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::vector<std::byte>& bytes)
      : path_(std::filesystem::temp_directory_path() / ("memreel-bench-" + std::to_string(::getpid()) + ".reel")) {
    auto sink = atomic_file_sink(path_);
    if (sink && (*sink)->write(bytes)) std::ignore = (*sink)->close();
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

void count_events(benchmark::State& state, std::size_t per_iteration) {
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()) * static_cast<std::int64_t>(per_iteration));
}

void write_trace(benchmark::State& state, const Trace& trace) {
  std::size_t size = 0;
  for (auto _ : state) size = written(trace).size();
  count_events(state, trace.events.count());
  state.counters["bytes_per_event"] = static_cast<double>(size) / static_cast<double>(trace.events.count());
}

void read_trace(benchmark::State& state, const Trace& trace) {
  const TemporaryFile file(written(trace));
  for (auto _ : state) benchmark::DoNotOptimize(load(file.path()));
  count_events(state, trace.events.count());
}

void stream_trace(benchmark::State& state, const Trace& trace) {
  const TemporaryFile file(written(trace));
  for (auto _ : state) {
    auto reader = TraceReader::open(*open_file(file.path()), "bench");
    EventBatch batch;
    while (*reader->next(batch)) benchmark::DoNotOptimize(batch.events.size.data());
  }
  count_events(state, trace.events.count());
}

/// The state at random events.
void seek_trace(benchmark::State& state, const Trace& trace) {
  const TemporaryFile file(written(trace));
  const auto index = TraceIndex::open(*open_file(file.path()), "bench");
  synthetic::Random random(1);
  for (auto _ : state) benchmark::DoNotOptimize(index->state_after(random.below(index->event_count())));
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()));
}

void add_benchmarks(const std::string& name, const Trace& trace) {
  using Run = void (*)(benchmark::State&, const Trace&);
  for (const auto& [what, run] : {std::pair<const char*, Run>{"write", write_trace},
                                  {"read", read_trace},
                                  {"stream", stream_trace},
                                  {"seek", seek_trace}})
    benchmark::RegisterBenchmark((std::string(what) + "/" + name).c_str(),
                                 [run = run, &trace](benchmark::State& state) { run(state, trace); })
        ->Unit(benchmark::kMillisecond)
        ->MinTime(1);
}

int run_benchmarks() {
  const Trace iterative = synthetic_trace({.events = events, .live = 2000, .steps = 200});
  const Trace random = synthetic_trace({.events = events, .live = 50'000});
  add_benchmarks("iterative", iterative);
  add_benchmarks("random", random);
  Trace recorded;
  if (const char* path = std::getenv("MEMREEL_TRACE")) {  // NOLINT(concurrency-mt-unsafe): no other threads
    auto trace = load(path);
    if (!trace) {
      std::fprintf(stderr, "%s\n", trace.error().message().c_str());
      return 2;
    }
    recorded = *std::move(trace);
    add_benchmarks(std::filesystem::path(path).stem().string(), recorded);
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

}  // namespace
}  // namespace memreel

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  return benchmark::ReportUnrecognizedArguments(argc, argv) ? 2 : memreel::run_benchmarks();
}
