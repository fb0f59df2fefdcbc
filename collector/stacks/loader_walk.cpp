#include "collector/stacks/loader_walk.h"

#include <atomic>
#include <chrono>

#include "collector/stacks/nap.h"

namespace memreel::stacks {
namespace {

constexpr std::chrono::microseconds pause{50};
constexpr int turns_of_a_fork = 2'000, turns_of_a_use = 20'000;  // 100 ms and a second

// Counters instead of a mutex: after a fork, the child can't repair a mutex, since it doesn't know which thread held
// it. NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables): a process has one loader
constinit std::atomic<int> uses = 0, forks = 0;
struct Here {
  int uses = 0;  // by this thread
  bool forks = false;
};
constinit thread_local Here here{};
// NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables)

}  // namespace

LoaderUse::LoaderUse() {
  const bool may_wait = here.uses++ == 0 && !here.forks;
  uses.fetch_add(1);
  for (int turn = 0; may_wait && forks.load() != 0 && turn < turns_of_a_use; ++turn) {
    uses.fetch_sub(1);
    nap(pause);
    uses.fetch_add(1);
  }
}

LoaderUse::~LoaderUse() {
  uses.fetch_sub(1);
  --here.uses;
}

int walk_loaded_modules(int (*visit)(dl_phdr_info*, std::size_t, void*), void* argument) {
  const LoaderUse use;
  return ::dl_iterate_phdr(visit, argument);
}

void hold_loader_uses() {
  here.forks = true;
  forks.fetch_add(1);
  for (int turn = 0; uses.load() > here.uses && turn < turns_of_a_fork; ++turn) nap(pause);
}

void release_loader_uses() {
  forks.fetch_sub(1);
  here.forks = false;
}

void forget_loader_uses() {
  uses = here.uses;
  forks = 0;
  here.forks = false;
}

}  // namespace memreel::stacks
