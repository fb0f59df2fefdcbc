// SPDX-License-Identifier: Apache-2.0
// The cost of categorizing every allocation of a long trace. Its accuracy: tests/e2e/category_score.py.
//
//     bench_categories [FILE]     default: the history random_2m
//
// The baseline, in the same run, is one plain pass over the events, lifetimes(). Target: 2 M events in 1 s on one core.
#include <chrono>
#include <cstdio>

#include "analyzer/analysis/category/classify.h"
#include "analyzer/analysis/history/lifetimes.h"
#include "formats/import/import.h"
#include "tests/histories.h"

namespace {

template <class Work>
double seconds_of(Work work) {
  double best = 1e9;
  for (int i = 0; i < 5; ++i) {
    const auto start = std::chrono::steady_clock::now();
    work();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  const auto file = argc > 1 ? std::optional<std::filesystem::path>(argv[1]) : memreel::test::history("random_2m");
  if (!file) return std::puts("no history random_2m: name a file"), 0;
  const memreel::Result<memreel::Trace> trace = memreel::open_any(*file);
  if (!trace) return std::fprintf(stderr, "%s\n", trace.error().what.c_str()), 2;
  const auto events = static_cast<double>(trace->events.count());
  const double plain = seconds_of([&] { return memreel::lifetimes(*trace).size(); });
  const double named = seconds_of([&] { return memreel::classify(*trace).evidence.size(); });
  std::printf("%-12s %8.3f s %8.1f ns/event\n%-12s %8.3f s %8.1f ns/event %8.1f passes\n", "lifetimes", plain,
              plain / events * 1e9, "classify", named, named / events * 1e9, named / plain);
}
