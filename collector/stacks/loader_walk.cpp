#include "collector/stacks/loader_walk.h"

#include <chrono>
#include <mutex>

namespace memreel::stacks {
namespace {

constexpr std::chrono::milliseconds patience{100};

// Not a recursive one: that would not let go in the forked child, whose thread has another id.
std::timed_mutex walking;           // NOLINT(cppcoreguidelines-avoid-non-const-global-variables): as the loader's lock
thread_local bool is_held = false;  // by this thread, for a fork

}  // namespace

int walk_loaded_modules(int (*visit)(dl_phdr_info*, std::size_t, void*), void* argument) {
  std::unique_lock lock(walking, std::defer_lock);
  if (!is_held) lock.lock();  // else the thread is about to fork, and somebody else's fork handler came here
  return ::dl_iterate_phdr(visit, argument);
}

void hold_loader_walks() { is_held = walking.try_lock_for(patience); }

void release_loader_walks() {
  if (!is_held) return;
  is_held = false;
  walking.unlock();
}

}  // namespace memreel::stacks
