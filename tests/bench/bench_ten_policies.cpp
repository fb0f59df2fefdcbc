// SPDX-License-Identifier: Apache-2.0
// Ten policies compared on one long trace: the user's waiting time, compared with best fit on std::set.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <string>
#include <vector>

#include "analyzer/replay/engine/engine.h"
#include "analyzer/replay/engine/policy_interface.h"
#include "analyzer/replay/policies/growing_range.h"
#include "analyzer/replay/prepare.h"
#include "analyzer/replay/replay.h"
#include "tests/bench/set_placement.h"
#include "tests/bench/synthetic.h"

namespace memreel {
namespace {

constexpr unsigned cores = 2;

/// Wall time and the processor time of all threads in seconds: on a machine with other load the latter is more
/// reliable.
struct Seconds {
  double wall = 0, processor = 0;
};

Seconds time_of(auto&& work) {
  const auto begin = std::chrono::steady_clock::now();
  const std::clock_t begin_processor = std::clock();
  work();
  return {.wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(),
          .processor = static_cast<double>(std::clock() - begin_processor) / CLOCKS_PER_SEC};
}

void print(const char* what, const Seconds& seconds) {
  std::printf("  %-28s %6.2f s wall  %6.2f s of processor time, half of it %6.2f s\n", what, seconds.wall,
              seconds.processor, seconds.processor / cores);
}

int measure() {
  std::vector<PolicySpec> specs;
  for (const char* name : {"bound.live", "cuda.malloc", "cuda.async", "torch.native", "torch.expandable", "tf.bfc",
                           "rmm.pool", "fit.best", "buddy", "tlsf"})
    specs.push_back({.name = name});
  for (const auto& [live, steps] : {std::pair(5'000U, 0U), std::pair(5'000U, 100U), std::pair(50'000U, 0U)}) {
    const Trace trace = synthetic_trace({.events = 10'000'000, .live = live, .steps = steps});
    std::printf("%zu events, %u live, %s\n", trace.events.count(), live,
                steps > 0 ? "the same step 100 times" : "random");
    std::vector<Prepared> heaps;
    const Seconds preparing = time_of([&] { heaps = prepare(trace); });
    const RunOptions options{.series_points = 1024};
    const Seconds yardstick =
        time_of([&] { run_policy<GrowingRange<SetPlacement>>(heaps.at(0), GrowingRangeSettings{}, options); });
    std::vector<ReplayResult> results;
    const Seconds replaying = time_of([&] {
      if (auto replayed = replay(heaps, specs, {.threads = cores})) results = *std::move(replayed);
    });
    if (results.size() != specs.size()) return 1;
    print("prepare", preparing);
    print("ten policies, two threads", replaying);
    print("both (target: 10 s)", {preparing.wall + replaying.wall, preparing.processor + replaying.processor});
    print("std::set, one policy", yardstick);
    std::printf("  ten policies took %.1f times as much processor time as best fit on a std::set alone\n",
                replaying.processor / yardstick.processor);
    for (const ReplayResult& result : results)
      std::printf("    %-18s %6.2f s wall\n", result.policy.name.c_str(), result.seconds);
  }
  return 0;
}

}  // namespace
}  // namespace memreel

int main() { return memreel::measure(); }
