// SPDX-License-Identifier: Apache-2.0
// Stack capture, compared with the unwinders that programs use otherwise. `depth` is the number of native frames, in
// code without frame pointers.
#include <benchmark/benchmark.h>
#include <execinfo.h>

#include <array>
#include <memory>

#include "collector/stacks/recent_walks.h"
#include "collector/stacks/stack_tree.h"
#include "collector/stacks/unwind.h"

#ifdef MEMREEL_LIBUNWIND
#define UNW_LOCAL_ONLY
#include <libunwind.h>
#endif

namespace memreel::stacks {
namespace {

using Work = void (*)(benchmark::State& state);

/// Runs `work` below `depth` frames that save different registers, as a program's functions do.
#ifndef __clang__
[[gnu::optimize("omit-frame-pointer")]]
#endif
[[gnu::noinline]] void
below(std::int64_t depth, Work work, benchmark::State& state) {
  std::array<char, 24> local{};
  asm volatile("" : : "r"(&local) : "rbx", "r12", "memory");
  if (depth <= 1)
    work(state);
  else
    below(depth - 1, work, state);
  asm volatile("" : : "r"(&local) : "memory");
}

constexpr std::size_t limit = 128;

Unwinder& unwinder() {
  static const std::unique_ptr<Unwinder> one = std::make_unique<Unwinder>();
  return *one;
}

StackTree& tree() {
  static StackTree one;
  return one;
}

/// Frames between main() and the captured stack; the benchmark adds that many fewer.
std::int64_t frames_above() {
  static const std::int64_t count = [] {
    std::array<void*, limit> addresses{};
    return std::int64_t{backtrace(addresses.data(), limit)};
  }();
  return count;
}

void unwind(benchmark::State& state) {
  StackBounds bounds;
  std::array<FrameKey, limit> frames;
  std::size_t count = 0;
  for (auto _ : state) {
    count = unwinder().unwind(bounds, frames);
    benchmark::DoNotOptimize(frames);
  }
  state.counters["frames"] = static_cast<double>(count);
}

void capture(benchmark::State& state) {
  StackBounds bounds;
  const auto recent = std::make_unique<RecentStacks>();
  const auto walks = std::make_unique<EarlierWalks>();
  std::array<FrameKey, limit> frames;
  std::array<std::uint64_t, limit> words;
  Walked walked;
  for (auto _ : state) {
    walked = unwinder().unwind(bounds, *walks, frames, words);
    const std::span<const std::uint64_t> stack = std::span(words).first(walked.words);
    const RecentStacks::Bucket place = RecentStacks::bucket_of(stack);
    StackKey key = recent->find(place, stack);
    if (key == StackKey::none) {
      walks->write_frames(walked, frames);
      recent->put(place, stack, key = tree().insert(std::span(frames).first(walked.frames)));
    }
    benchmark::DoNotOptimize(key);
  }
  state.counters["frames"] = static_cast<double>(walked.frames);
  state.counters["words"] = static_cast<double>(walked.words);
}

void glibc_backtrace(benchmark::State& state) {
  std::array<void*, limit> addresses;
  int count = 0;
  for (auto _ : state) {
    count = backtrace(addresses.data(), limit);
    benchmark::DoNotOptimize(addresses);
  }
  state.counters["frames"] = count;
}

#ifdef MEMREEL_LIBUNWIND
void libunwind_backtrace(benchmark::State& state) {
  std::array<void*, limit> addresses;
  int count = 0;
  for (auto _ : state) {
    count = unw_backtrace(addresses.data(), limit);
    benchmark::DoNotOptimize(addresses);
  }
  state.counters["frames"] = count;
}
#endif

template <Work work>
void at_depth(benchmark::State& state) {
  below(state.range(0) - frames_above(), work, state);
}

void depths(benchmark::internal::Benchmark* b) { b->ArgName("depth")->Arg(20)->Arg(40)->Arg(60); }

BENCHMARK_TEMPLATE(at_depth, unwind)->Name("unwind")->Apply(depths);
BENCHMARK_TEMPLATE(at_depth, capture)->Name("capture")->Apply(depths);
BENCHMARK_TEMPLATE(at_depth, glibc_backtrace)->Name("backtrace")->Apply(depths);
#ifdef MEMREEL_LIBUNWIND
BENCHMARK_TEMPLATE(at_depth, libunwind_backtrace)->Name("libunwind")->Apply(depths);
#endif
BENCHMARK_TEMPLATE(at_depth, capture)->Name("capture")->ArgName("depth")->Arg(20)->Threads(8)->UseRealTime();

/// The cost of a stack that is already in the tree but not among the thread's recent ones.
void insert_known(benchmark::State& state) {
  constexpr std::size_t stack_count = 50'000, depth = 20;
  const auto own = std::make_unique<StackTree>();
  std::array<FrameKey, depth> frames;
  std::size_t i = 0;
  const auto next = [&] {
    // The outer half is shared; the inner half takes many paths.
    for (std::size_t f = 0; f < depth; ++f)
      frames[f] = FrameKey::native(0x5555'0000'0000 + f * 4096 + (f < depth / 2 ? (i >> f) * 16 : 0));
    i = (i + 1) % stack_count;
    return std::span<const FrameKey>(frames);
  };
  for (std::size_t n = 0; n < stack_count; ++n) own->insert(next());
  for (auto _ : state) benchmark::DoNotOptimize(own->insert(next()));
  state.counters["nodes"] = own->size();
}
BENCHMARK(insert_known);

}  // namespace
}  // namespace memreel::stacks

BENCHMARK_MAIN();
