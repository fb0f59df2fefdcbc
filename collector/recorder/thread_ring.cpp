// SPDX-License-Identifier: Apache-2.0
#include "collector/recorder/thread_ring.h"

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>
#include <new>

namespace memreel::agent {

void Wakeup::wait(std::chrono::milliseconds period) {
  std::uint32_t expected = nothing;
  if (state_.compare_exchange_strong(expected, waiting)) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(period);
    const timespec timeout{.tv_sec = seconds.count(), .tv_nsec = std::chrono::nanoseconds(period - seconds).count()};
    ::syscall(SYS_futex, &state_, FUTEX_WAIT_PRIVATE, waiting, &timeout, nullptr, 0);
  }
  state_.store(nothing);
}

void Wakeup::wake() {
  if (state_.exchange(called) == waiting)
    ::syscall(SYS_futex, &state_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

namespace {

/// Places `count` objects at `place` and advances it. Memory from mmap is zero, and so are they.
template <class T>
std::span<T> lay_out(std::byte*& place, std::size_t count) {
  T* const first = std::launder(reinterpret_cast<T*>(place));
  place += count * sizeof(T);
  return {first, count};
}

/// Python frames are what a user looks for, and cheaper than native ones: they have their own limit.
constexpr std::size_t python_depth = 1024;

}  // namespace

ThreadRing* ThreadRing::create(std::uint32_t capacity, std::uint32_t depth) {
  const std::size_t words = depth + std::size_t{1};
  const std::size_t bytes = sizeof(ThreadRing) + sizeof(stacks::EarlierWalks) + sizeof(stacks::ChainStacks) +
                            sizeof(stacks::RecentStacks) + sizeof(python::FrameChain) + capacity * sizeof(Record) +
                            words * sizeof(std::uint64_t) + depth * sizeof(stacks::FrameKey) +
                            python_depth * sizeof(stacks::PythonFrame) +
                            (depth + python_depth) * sizeof(stacks::FrameKey);
  void* const memory =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  std::byte* place = static_cast<std::byte*>(memory) + sizeof(ThreadRing);
  // Cache-line-aligned parts come first.
  stacks::EarlierWalks* const walks = lay_out<stacks::EarlierWalks>(place, 1).data();
  auto* const by_chain = lay_out<stacks::ChainStacks>(place, 1).data();
  auto* const ring = new (memory) ThreadRing(capacity, lay_out<Record>(place, capacity).data());
  CaptureState& capture = ring->capture_;
  capture.walks = walks;
  capture.by_chain = by_chain;
  capture.chain = lay_out<python::FrameChain>(place, 1).data();
  capture.recent = lay_out<stacks::RecentStacks>(place, 1).data();
  capture.words = lay_out<std::uint64_t>(place, words);
  capture.native = lay_out<stacks::FrameKey>(place, depth);
  capture.python = lay_out<stacks::PythonFrame>(place, python_depth);
  capture.merged = lay_out<stacks::FrameKey>(place, depth + python_depth);
  return ring;
}

void ThreadRing::give_back_pages() {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<std::uintptr_t>(records_) + page - 1) & ~(page - 1);
  const auto end = reinterpret_cast<std::uintptr_t>(records_ + capacity_) & ~(page - 1);
  // NOLINTNEXTLINE(performance-no-int-to-ptr): pages are found by the numbers of their addresses
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace memreel::agent
