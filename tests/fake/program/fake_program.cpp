// SPDX-License-Identifier: Apache-2.0
// A program that uses GPU memory in one particular way and logs what it did (samples/cuda/ground_truth.h).
//
//   fake_program MODE [NUMBER...]       without arguments, lists the modes
//
// Sizes and order come from a generator with a fixed seed: a mode does the same in every run.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/fake/program/modes.h"

namespace fake_program {
namespace {

struct Mode {
  const char* name;
  int (*run)(const Numbers&);
  Numbers defaults;
  const char* what;
};

const std::array modes{
    Mode{"single", single, {1000}, "COUNT: allocations and frees in one thread"},
    Mode{"threads", threads, {8, 500}, "THREADS COUNT: threads that free what others allocated"},
    Mode{"short-threads", short_threads, {10'000}, "THREADS: in sequence"},
    Mode{"nested", nested, {20}, "DEPTH: an allocation below that many calls"},
    Mode{"failures", failures, {}, "requests that can't be met, frees of nothing"},
    Mode{"kinds", kinds, {}, "pitched, managed, page-locked, registered, array"},
    Mode{"pools", pools, {300}, "COUNT: stream-ordered allocations in two pools"},
    Mode{"vmm", vmm, {}, "one range, mapped and unmapped piece by piece"},
    Mode{"capture", capture, {}, "allocation nodes of a captured graph"},
    Mode{"contexts", contexts, {1}, "COUNT: contexts, each destroyed with its memory"},
    Mode{"devices", devices, {300}, "COUNT: memory of two devices, each used from the other"},
    Mode{"locations", locations, {}, "pools by location, made and asked for: two devices, the host"},
    Mode{"nodes", nodes, {}, "physical memory of a locality domain, nodes of a graph on another device"},
    Mode{"green", green, {}, "green contexts of another device, and what outlives them"},
    Mode{"foreign-streams",
         foreign_streams,
         {100},
         "COUNT: stream-ordered memory, with another device's context current"},
    Mode{"ipc", open_of_another, {4}, "MIB: one process opens the memory of another"},
    Mode{"fork-late", fork_late, {100}, "COUNT: fork after CUDA was used"},
    Mode{"fork-early", fork_early, {100}, "COUNT: fork before CUDA is used, by both"},
    Mode{"fork-often", fork_often, {100}, "COUNT: forks whose children load a library"},
    Mode{"close-files",
         close_files,
         {100, 8},
         "COUNT FILES: closes all files that it does not know, then opens its own"},
    Mode{"cancel", cancel, {20}, "THREADS: cancelled while they allocate"},
    Mode{"exit-in-handler", exit_in_handler, {1000}, "MICROSECONDS: exits then from a signal handler; exit code 7"},
    Mode{"exec", exec, {100}, "COUNT: then execs `single`"},
    Mode{"spawn", spawn, {3, 100, 0}, "CHILDREN COUNT USES: processes with RANK set; their parent may use CUDA too"},
    Mode{"exit-inside", exit_inside, {4}, "THREADS: main returns while they allocate; exit code 5"},
    Mode{"quick-exit", quick_exit, {100}, "COUNT: then _exit(6)"},
    Mode{"crash", crash, {100}, "COUNT: then SIGSEGV"},
    Mode{"endless", endless, {2}, "THREADS: until killed"},
    Mode{"race", race, {1, 100'000}, "THREADS COUNT: as fast as possible, prints ns_per_event"},
    Mode{"ordered-race",
         ordered_race,
         {2000, 0, 50},
         "COUNT DEPTH ROUNDS: with stream-ordered memory, below DEPTH calls"},
    Mode{"handle-signal", handle_signal, {}, "exits with the number of the signal that it caught"},
    Mode{"wait", wait_for_signal, {}, "waits for a signal"},
    Mode{"leak", leak, {300}, "COUNT: like single, without freeing the rest"},
    Mode{"initialize", initialize, {}, "cuInit and a context, no memory"},
    Mode{"nothing", nothing, {0}, "CODE: exits with it, without CUDA"},
};

}  // namespace
}  // namespace fake_program

int main(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "";
  for (const fake_program::Mode& mode : fake_program::modes) {
    if (name != mode.name) continue;
    fake_program::Numbers numbers = mode.defaults;
    for (int i = 2; i < argc && i - 2 < static_cast<int>(numbers.size()); ++i)
      numbers[static_cast<std::size_t>(i) - 2] = std::strtoull(argv[i], nullptr, 10);
    return mode.run(numbers);
  }
  for (const fake_program::Mode& mode : fake_program::modes) std::fprintf(stderr, "  %-14s %s\n", mode.name, mode.what);
  return 2;
}
