// SPDX-License-Identifier: Apache-2.0
#include "collector/stacks/stack_memory.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

// The start of the main thread's stack, in the loader. Looking it up with dlsym() would take the loader's lock.
extern "C"
    __attribute__((weak)) void* __libc_stack_end;  // NOLINT(bugprone-reserved-identifier,readability-identifier-naming)

namespace memreel::stacks {
namespace {

constexpr std::uintptr_t page_size = 4096;  // or a divisor of it

/// The kernel keeps at least 128 MiB below the main thread's stack free for growth, whatever the current limit.
StackBounds main_stack_bounds() {
  if (&__libc_stack_end == nullptr || __libc_stack_end == nullptr) return {};
  const auto end = reinterpret_cast<std::uintptr_t>(__libc_stack_end);
  rlimit limit{};
  if (getrlimit(RLIMIT_STACK, &limit) != 0) return {};
  const std::uintptr_t growth = std::min<std::uintptr_t>(limit.rlim_cur, 128U << 20U);
  return {.low = end - growth, .high = (end & ~(page_size - 1)) + page_size};
}

}  // namespace

// The kernel copies the signal set before it notices that operation -1 does not exist: EFAULT or EINVAL says whether
// the word is readable. No other system call answers that as cheaply, and every sandbox allows this one.
bool is_readable(std::uintptr_t address) {
  const int error_of_program = errno;
  const long result = syscall(SYS_rt_sigprocmask, -1, address & ~(sizeof address - 1), nullptr, sizeof address);
  const bool readable = result == -1 && errno == EINVAL;
  errno = error_of_program;
  return readable;
}

namespace {

/// Without what is lower than the calling thread's record of itself. The C library (glibc and musl alike) keeps it at
/// the upper end of a thread's stack, and a page that can't be read below the lower end.
StackBounds bounds_of_new_thread(std::uintptr_t address) {
  StackBounds bounds = main_stack_bounds();
  bounds.ends = bounds.contains(address) || syscall(SYS_gettid) == getpid();
  if (!bounds.ends) bounds.low = bounds.high = reinterpret_cast<std::uintptr_t>(pthread_self()) & ~(sizeof address - 1);
  bounds.thread = pthread_self();
  return bounds;
}

}  // namespace

StackBounds own_stack_bounds(const StackBounds& known, std::uintptr_t address) {
  constexpr std::uintptr_t ahead = 32U << 10U;     // what a thread will need soon: a sandbox may forbid to ask later
  constexpr std::uintptr_t furthest = 16U << 20U;  // in one call: some milliseconds
  const int error_of_program = errno;
  StackBounds bounds = known.thread == pthread_self() ? known : bounds_of_new_thread(address);
  if (address < bounds.low && bounds.low - address <= furthest) {
    const std::uintptr_t until = address - std::min(address, ahead);
    while (!bounds.ends && bounds.low > until) {
      const std::uintptr_t page = (bounds.low - 1) & ~(page_size - 1);
      if (is_readable(page))
        bounds.low = page;
      else
        bounds.ends = true;
    }
  }
  errno = error_of_program;
  return bounds;
}

bool StackMemory::admit_page(std::uintptr_t address) {
  if (own_.contains(low_) || !is_readable(address)) return false;
  const std::uintptr_t page = address & ~(page_size - 1);
  if (page != high_) low_ = page;
  high_ = page + page_size;
  return true;
}

}  // namespace memreel::stacks
