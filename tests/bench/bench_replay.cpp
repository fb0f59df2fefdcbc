// SPDX-License-Identifier: Apache-2.0
// Replay speed of the policies, compared with best fit on std::set, the structure that allocators use. A free and its
// completion count as one event. Measures synthetic histories, and real ones where available (tests/histories.h).
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "analyzer/replay/engine/engine.h"
#include "analyzer/replay/policies/growing_range.h"
#include "analyzer/replay/prepare.h"
#include "analyzer/replay/registry.h"
#include "analyzer/replay/replay.h"
#include "formats/import/import.h"
#include "tests/bench/set_placement.h"
#include "tests/bench/synthetic.h"
#include "tests/histories.h"

namespace memreel {
namespace {

using Run = std::function<ReplayResult(const Prepared&, const RunOptions&)>;

constexpr const char* baseline = "std::set";

std::map<std::string, Run> contenders() {
  std::map<std::string, Run> runs;
  runs[baseline] = [](const Prepared& heap, const RunOptions& options) {
    return run_policy<GrowingRange<SetPlacement>>(heap, GrowingRangeSettings{}, options);
  };
  for (const PolicyInfo& policy : policies()) {
    if (policy.host_memory) continue;
    if (policy.name.starts_with("plan.")) continue;  // most of the time is making the plan: bench_plan
    if (auto bound = bind_policy({.name = std::string(policy.name)})) runs[std::string(policy.name)] = bound->run;
  }
  return runs;
}

Prepared prepared(const SyntheticOptions& options) { return prepare(synthetic_trace(options)).at(0); }

/// `gaps` free blocks of one size, each between two live blocks that stay. Short-lived blocks come and go among them,
/// so that every event fills one gap or opens another.
Prepared heap_of_gaps(std::uint32_t gaps) {
  constexpr Bytes size = 64_KiB;
  const std::uint32_t visitors = gaps / 4;
  Prepared heap;
  heap.pool_streams.emplace_back();
  heap.slot_count = 2 * (gaps + visitors);
  const auto push = [&](Op op, std::uint32_t slot) {
    heap.op.push_back(op);
    heap.slot.push_back(slot);
    heap.pool_stream.push_back(0);
    heap.size.push_back(size);
    heap.event.push_back(static_cast<std::uint32_t>(heap.event.size()));
  };
  for (std::uint32_t slot = 0; slot < heap.slot_count; ++slot) push(Op::alloc, slot);
  for (std::uint32_t slot = 1; slot < heap.slot_count; slot += 2) push(Op::free, slot);
  for (std::uint32_t i = 0; i < visitors; ++i) push(Op::alloc, 2 * i + 1);
  synthetic::Random random(3);
  for (int i = 0; i < 500'000; ++i) {
    const auto slot = static_cast<std::uint32_t>(2 * random.below(visitors) + 1);
    push(Op::free, slot);
    push(Op::alloc, slot);
  }
  return heap;
}

std::map<std::string, Prepared> workloads() {
  std::map<std::string, Prepared> loads;
  loads["random, 500 live"] = prepared({.live = 500});
  loads["random, 5 k live"] = prepared({.live = 5'000});
  loads["random, 50 k live"] = prepared({.events = 3'000'000, .live = 50'000});
  loads["steps, 5 k live"] = prepared({.live = 5'000, .steps = 20});
  loads["holes: 4 k"] = heap_of_gaps(4 << 10);
  loads["holes: 65 k"] = heap_of_gaps(64 << 10);
  for (const char* name : {"decode_default", "gpt_default", "random_2m"}) {
    const auto file = test::history(name);
    if (!file) continue;
    if (const auto trace = open_any(*file)) loads[name] = prepare(*trace).at(0);
  }
  return loads;
}

void measure(benchmark::State& state, const Run& run, const Prepared& heap) {
  const RunOptions options{.series_points = 1024};
  for (auto _ : state) benchmark::DoNotOptimize(run(heap, options).peak_reserved);
  state.counters["events/s"] =
      benchmark::Counter(static_cast<double>(heap.count()), benchmark::Counter::kIsIterationInvariantRate);
}

/// Printed after the usual lines: events per second of every policy on every workload, and the ratio to the baseline,
/// each the best repetition, because other load on the machine disturbs some.
class TableReporter : public benchmark::ConsoleReporter {
 public:
  void ReportRuns(const std::vector<Run>& runs) override {
    std::vector<Run> repetitions = runs;
    std::erase_if(repetitions, [](const Run& run) { return run.run_type != Run::RT_Iteration; });
    ConsoleReporter::ReportRuns(repetitions);
    for (const Run& run : repetitions) {
      const std::string& name = run.run_name.function_name;
      const std::size_t slash = name.find('/');
      double& best = rates_[name.substr(0, slash)][name.substr(slash + 1)];
      best = std::max(best, run.counters.at("events/s").value);
    }
  }
  void Finalize() override {
    std::printf("\nmillion events a second (times the %s baseline)\n", baseline);
    for (const auto& [workload, by_policy] : rates_) {
      std::printf("%s\n", workload.c_str());
      const auto base = by_policy.find(baseline);
      for (const auto& [policy, rate] : by_policy) {
        std::printf("  %-14s %8.1f", policy.c_str(), rate / 1e6);
        if (base != by_policy.end()) std::printf("  (%.1fx)", rate / base->second);
        std::printf("\n");
      }
    }
  }

 private:
  std::map<std::string, std::map<std::string, double>> rates_;
};

}  // namespace
}  // namespace memreel

int main(int argc, char** argv) {
  const auto runs = memreel::contenders();
  const auto loads = memreel::workloads();
  for (const auto& [load, heap] : loads)
    for (const auto& [policy, run] : runs)
      benchmark::RegisterBenchmark(
          (load + "/" + policy).c_str(),
          [&run = run, &heap = heap](benchmark::State& state) { memreel::measure(state, run, heap); })
          ->Unit(benchmark::kMillisecond)
          ->MinTime(0.15)
          ->Repetitions(3);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  memreel::TableReporter reporter;
  benchmark::RunSpecifiedBenchmarks(&reporter);
  benchmark::Shutdown();
  return 0;
}
