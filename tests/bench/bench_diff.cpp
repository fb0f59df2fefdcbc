// SPDX-License-Identifier: Apache-2.0
// Compares two long traces like `memreel diff A B`, starting from the files.
//
//   bench_diff [EVENTS]     (default 10,000,000 in each)
//
// The baseline, in the same run, is reading one of them. Target: both read and compared in 2 s on two cores.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <future>
#include <vector>

#include "analyzer/analysis/difference/difference.h"
#include "formats/reader/trace_reader.h"
#include "formats/writer/trace_writer.h"
#include "tests/bench/synthetic.h"

namespace {

using namespace memreel;  // NOLINT(google-build-using-namespace): a program of one file

std::vector<std::byte> file_of(const Trace& trace) {
  std::vector<std::byte> bytes;
  TraceWriter writer(memory_sink(bytes), trace.header);
  writer.extend_tables(trace.tables);
  for (std::size_t i = 0; i < trace.events.count(); ++i) writer.append(trace.events[i]);
  if (!writer.finish()) std::abort();
  return bytes;
}

Trace read(const std::vector<std::byte>& bytes) {
  Result<Trace> trace = load(memory_file(bytes), "bench");
  if (!trace) std::abort();
  return *std::move(trace);
}

template <class Work>
auto measure(const char* name, double& yardstick, Work work) {
  const auto start = std::chrono::steady_clock::now();
  const std::clock_t cores = std::clock();
  auto result = work();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const double core_seconds = static_cast<double>(std::clock() - cores) / CLOCKS_PER_SEC;
  if (yardstick == 0) yardstick = core_seconds;
  std::printf("%-38s %9.2f %13.2f %8.1f\n", name, seconds, core_seconds, core_seconds / yardstick);
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  SyntheticOptions options;
  options.events = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 10'000'000;
  options.steps = 500;
  options.stacks = 2000;
  const std::vector<std::byte> one = file_of(synthetic_trace(options));
  options.steps = 510;
  const std::vector<std::byte> other = file_of(synthetic_trace(options));
  std::printf("%-38s %9s %13s %8s\n", "", "seconds", "core seconds", "reads");
  double yardstick = 0;
  measure("one trace, read", yardstick, [&] { return read(one).events.count(); });
  auto [a, b] = measure("two, read at once", yardstick, [&] {
    std::future<Trace> beside = std::async(std::launch::async, [&] { return read(other); });
    Trace first = read(one);
    return std::pair(std::move(first), beside.get());
  });
  measure("compared", yardstick, [&, &first = a, &second = b] {
    return difference({Analysis(first), AtPeak{}}, {Analysis(second), AtPeak{}})->size();
  });
  // Without marks, steps are found by repetition.
  for (Trace* trace : {&a, &b}) {
    for (Mark& mark : trace->tables.marks) mark = {};
  }
  measure("compared, without marks", yardstick, [&, &first = a, &second = b] {
    return difference({Analysis(first), AtPeak{}}, {Analysis(second), AtPeak{}})->size();
  });
  return 0;
}
