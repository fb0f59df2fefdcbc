// SPDX-License-Identifier: Apache-2.0
// The cost of all verdicts on a long trace: leaks, fragmentation, failures, and the replays they need.
//
//   bench_insight [EVENTS]     (default 10,000,000)
//
// The baseline, in the same run, is one plain pass over the events, lifetimes(). Target: all together in 5 s on two
// cores, with at most 40 bytes per event besides the trace.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <string>

#include "analyzer/analysis/analysis.h"
#include "analyzer/analysis/history/lifetimes.h"
#include "analyzer/analysis/insight/fragmentation.h"
#include "analyzer/analysis/insight/leaks.h"
#include "analyzer/analysis/insight/out_of_memory.h"
#include "analyzer/analysis/insight/remedies.h"
#include "analyzer/analysis/insight/timeline.h"
#include "tests/bench/synthetic.h"

namespace memreel {
namespace {

/// Bytes from /proc/self/status, e.g. of "VmHWM:".
double resident(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (double kib = 0; word == field && status >> kib) return kib * 1024;
  return 0;
}

/// Resets the peak resident size.
void reset_peak() { std::ofstream("/proc/self/clear_refs") << "5"; }

class Table {
 public:
  explicit Table(double events) : events_(events) {
    std::printf("%-28s %9s %13s %9s %8s %13s\n", "", "seconds", "core seconds", "ns/event", "passes", "bytes/event");
  }

  template <class Work>
  auto measure(const char* name, Work work) {
    reset_peak();
    const double before = resident("VmRSS:");
    const auto start = std::chrono::steady_clock::now();
    const std::clock_t cores_before = std::clock();
    auto result = work();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const double core_seconds = static_cast<double>(std::clock() - cores_before) / CLOCKS_PER_SEC;
    const double bytes = std::max(0.0, resident("VmHWM:") - before);
    if (pass_ == 0) pass_ = core_seconds;
    std::printf("%-28s %9.2f %13.2f %9.1f %8.1f %13.1f\n", name, seconds, core_seconds, core_seconds / events_ * 1e9,
                core_seconds / pass_, bytes / events_);
    return result;
  }

 private:
  double events_;
  double pass_ = 0;
};

Remedies replayed(const Trace& trace) {
  Remedies remedies = untried_remedies(trace);
  replay_remedies(trace, heap_histories(trace), remedies);
  return remedies;
}

void run(std::uint64_t count) {
  SyntheticOptions options;
  options.events = count;
  options.live = 5000;
  options.streams = 2;
  options.steps = 500;
  const Trace trace = synthetic_trace(options);
  const auto events = static_cast<double>(trace.events.count());
  std::printf("%.0f events\n", events);
  Table table(events);
  table.measure("one pass: lifetimes", [&] { return lifetimes(trace).size(); });
  table.measure("all verdicts", [&] {
    const Analysis analysis(trace);
    return analysis.leaks().findings.size() + analysis.fragmentation().size() + analysis.survivors().count;
  });
  table.measure("  leaks", [&] { return Analysis(trace).leaks().findings.size(); });
  const RecordedBlocks blocks = table.measure("  block sizes", [&] { return recorded_blocks(trace); });
  table.measure("  fragmentation",
                [&] { return find_fragmentation(trace, heap_histories(trace), lifetimes(trace), blocks).size(); });
  const Remedies remedies = table.measure("  remedies, replayed", [&] { return replayed(trace); });
  table.measure("  failures", [&] { return Analysis(trace).failures().count; });
  table.measure("timeline of 800 columns", [&] { return memory_timelines(trace, blocks, 800).size(); });
}

}  // namespace
}  // namespace memreel

int main(int argc, char** argv) {
  memreel::run(argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 10'000'000);
  return 0;
}
