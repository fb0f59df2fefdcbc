// SPDX-License-Identifier: Apache-2.0
// The cost of categorizing every allocation of a long trace, and of naming the lines that hold them. The accuracy:
// tests/e2e/category_score.py.
//
//     bench_categories [FILE]     default: the history random_2m
//
// Baselines, in the same run: of categories one plain pass over the events, lifetimes(); of names one plain walk of the
// frames. Target: 2 M events in 1 s on one core.
#include <chrono>
#include <cstdio>

#include "analyzer/analysis/category/classify.h"
#include "analyzer/analysis/history/lifetimes.h"
#include "analyzer/describe/own_frame.h"
#include "formats/import/import.h"
#include "formats/model/frame_kind.h"
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

/// As of a server: no line of a stack is the user's own, so each is searched to its end.
memreel::Tables stacks_of_libraries(std::uint32_t count, std::uint32_t depth) {
  memreel::Tables tables;
  const auto string = [&](std::string text) {
    tables.strings.push_back(std::move(text));
    return memreel::StringId{static_cast<std::uint32_t>(tables.strings.size() - 1)};
  };
  constexpr std::uint32_t lines = 4'000;
  for (std::uint32_t line = 0; line < lines; ++line)
    tables.frames.push_back(
        {.function = string("call_" + std::to_string(line)),
         .file = string("/opt/venv/lib/python3.11/site-packages/vllm/part_" + std::to_string(line % 60) + ".py"),
         .line = line});
  memreel::classify_frames(tables, 1);
  memreel::shorten_paths(tables);
  for (std::uint32_t stack = 0; stack < count; ++stack) {
    auto caller = memreel::StackId::none;
    for (std::uint32_t at = 0; at < depth; ++at) {
      tables.stacks.push_back({memreel::FrameId{1 + (stack * 31 + at * 67) % lines}, caller});
      caller = memreel::StackId{static_cast<std::uint32_t>(tables.stacks.size() - 1)};
    }
  }
  return tables;
}

void name_stacks() {
  constexpr std::uint32_t count = 5'000, depth = 57;
  const memreel::Tables tables = stacks_of_libraries(count, depth);
  const auto first = static_cast<std::uint32_t>(tables.stacks.size()) - count * depth;
  const auto stack = [&](std::uint32_t i) { return memreel::StackId{first + (i + 1) * depth - 1}; };
  std::size_t letters = 0;
  const double plain = seconds_of([&] {
    for (std::uint32_t i = 0; i < count; ++i)
      for (const memreel::FrameText& frame : memreel::frames_of(tables, stack(i))) letters += frame.function.size();
  });
  const double named = seconds_of([&] {
    for (std::uint32_t i = 0; i < count; ++i) letters += memreel::site_label(tables, stack(i)).size();
  });
  std::printf("%-12s %8.3f s %8.1f ns/stack\n%-12s %8.3f s %8.1f ns/stack %7.1f walks\n", "frames_of", plain,
              plain / count * 1e9, "site_label", named, named / count * 1e9, named / plain);
  if (letters == 0) std::puts("no names");
}

}  // namespace

int main(int argc, char** argv) {
  const auto file = argc > 1 ? std::optional<std::filesystem::path>(argv[1]) : memreel::test::history("random_2m");
  name_stacks();
  if (!file) return std::puts("no history random_2m: name a file"), 0;
  const memreel::Result<memreel::Trace> trace = memreel::open_any(*file);
  if (!trace) return std::fprintf(stderr, "%s\n", trace.error().what.c_str()), 2;
  const auto events = static_cast<double>(trace->events.count());
  const double plain = seconds_of([&] { return memreel::lifetimes(*trace).size(); });
  const double named = seconds_of([&] { return memreel::classify(*trace).evidence.size(); });
  std::printf("%-12s %8.3f s %8.1f ns/event\n%-12s %8.3f s %8.1f ns/event %8.1f passes\n", "lifetimes", plain,
              plain / events * 1e9, "classify", named, named / events * 1e9, named / plain);
}
