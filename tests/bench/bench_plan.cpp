// SPDX-License-Identifier: Apache-2.0
// Planning speed for 100,000 buffers, compared with greedy by size without an index. Reports peak / LOAD of each.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <vector>

#include "analyzer/replay/plan/first_fit.h"
#include "analyzer/replay/plan/plan.h"
#include "analyzer/replay/plan/planned.h"
#include "analyzer/replay/prepare.h"
#include "tests/bench/synthetic.h"

namespace memreel::plan {
namespace {

/// Like planners without an index: of all buffers placed so far, those that overlap in time, in order of offset.
Placement naive_greedy(const Problem& problem, const Order& order) {
  Placement placement{.offsets = std::vector<Bytes>(problem.count()), .peak = {}};
  std::vector<std::uint32_t> placed;  // by offset
  placed.reserve(order.size());
  for (const std::uint32_t b : order) {
    constexpr Bytes none{~std::uint64_t{0}};
    Bytes end, chosen, smallest = none;
    for (const std::uint32_t p : placed) {
      if (!problem.lifetimes[p].overlaps(problem.lifetimes[b])) continue;
      const Bytes offset = placement.offsets[p];
      if (offset > end && offset - end >= problem.sizes[b] && offset - end < smallest) {
        smallest = offset - end;
        chosen = end;
      }
      end = std::max(end, offset + problem.sizes[p]);
    }
    placement.offsets[b] = smallest == none ? end : chosen;
    placement.peak = std::max(placement.peak, placement.offsets[b] + problem.sizes[b]);
    placed.insert(std::ranges::lower_bound(placed, placement.offsets[b], std::less{},
                                           [&](std::uint32_t p) { return placement.offsets[p]; }),
                  b);
  }
  return placement;
}

enum History : std::int64_t { training, arbitrary };

/// With 100,000 allocations: ten equal training steps, or random lifetimes.
std::vector<Buffer> buffers(std::int64_t history, std::int64_t live) {
  return buffers_of(prepare(synthetic_trace({.events = 300'000,
                                             .live = static_cast<std::uint32_t>(live),
                                             .steps = history == training ? 10U : 0U}))
                        .at(0));
}

template <class MakePlan>
void run(benchmark::State& state, const MakePlan& make) {
  const std::vector<Buffer> input = buffers(state.range(0), state.range(1));
  Bytes peak;
  for (auto _ : state) peak = make(input);
  const Problem problem = make_problem(input, 512_B);
  state.counters["buffers"] = static_cast<double>(input.size());
  state.counters["of_load"] = static_cast<double>(peak.count) / static_cast<double>(problem.load.count);
}

void naive(benchmark::State& state) {
  run(state, [](const std::vector<Buffer>& input) {
    const Problem problem = make_problem(input, 512_B);
    return naive_greedy(problem, order_by_size(problem)).peak;
  });
}
void plan_size(benchmark::State& state) {
  run(state, [](const std::vector<Buffer>& input) { return plan_by_size(input).peak; });
}
void best(benchmark::State& state) {
  run(state, [](const std::vector<Buffer>& input) { return plan_best(input).peak; });
}

void histories(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"arbitrary", "live"})->Unit(benchmark::kMillisecond)->Iterations(1);
  for (const std::int64_t history : {training, arbitrary})
    for (const std::int64_t live : {500, 5000}) benchmark->Args({history, live});
}

BENCHMARK(naive)->Apply(histories);
BENCHMARK(plan_size)->Apply(histories);
BENCHMARK(best)->Apply(histories);

}  // namespace
}  // namespace memreel::plan

BENCHMARK_MAIN();
