// SPDX-License-Identifier: Apache-2.0
// The native stack of the calling thread.
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <span>

#include "collector/stacks/code_map.h"
#include "collector/stacks/module_table.h"
#include "collector/stacks/recent_walks.h"
#include "collector/stacks/stack_memory.h"
#include "collector/stacks/stack_tree.h"
#include "collector/stacks/stretches.h"
#include "collector/stacks/unwind_rule.h"

namespace memreel::stacks {

// Sleeping in the program's threads.

/// Sleeps for less than a second, or until a signal arrives. Unlike nanosleep(3), it is not a cancellation point:
/// neither are the program's calls that lead here.
inline void nap(std::chrono::nanoseconds time) {
  const timespec left{.tv_sec = 0, .tv_nsec = time.count()};
  ::syscall(SYS_nanosleep, &left, nullptr);
}

/// A stack as words: equal words, from the same EarlierWalks, mean equal frames, but not vice versa. There are at most
/// as many words as frames; a recent stack takes one.
using StackWords = std::span<std::uint64_t>;

/// The number of frames and words from a walk.
struct Walked {
  std::size_t frames = 0, words = 0;
  RecentWalks::Walk* known = nullptr;  // has the frames; null: they were written
};

/// What a thread's walks keep for its later ones. All-zero bytes are the initial state, as for its parts.
struct EarlierWalks {
  std::uint32_t generation;  // of the rules it was all derived from
  Stretches stretches;
  RecentWalks recent;

  /// Forgets everything derived from another generation's rules.
  void belong_to(std::uint32_t current) {
    if (generation == current) return;
    generation = current;
    stretches.forget();
    recent.forget();
  }

  /// Writes the last walk's frames, unless that already did.
  void write_frames(const Walked& walked, std::span<FrameKey> frames) const {
    if (walked.known != nullptr && walked.frames <= frames.size()) recent.write_frames(*walked.known, frames.data());
  }
};

/// One per process, created when the agent starts, never destroyed while threads may capture. Any thread may unwind at
/// any time: no lock that another thread may hold, no allocation, no system call, except
///  - on a thread's first capture, which queries the bounds of its stack,
///  - at code not seen recently: the kernel is asked whether its module's headers are readable,
///  - on a stack other than the thread's own, for every page.
/// 300 KB, whose pages are used as code is seen: too large for a stack.
class Unwinder {
 public:
  explicit Unwinder(CodeMap::Source source = CodeMap::Source::loader) : code_(source) {}

  /// The calling thread's native frames, innermost first, as many as fit; returns how many. The first is where the
  /// caller of unwind() resumes. An instruction interrupted by a signal is reported as the address after its first
  /// byte, so that code_address() lies in the right code for every frame. Stops safely where the stack can't be read or
  /// understood. `bounds` is kept across calls of a thread; another thread's are replaced.
  [[gnu::always_inline]] std::size_t unwind(StackBounds& bounds, std::span<FrameKey> frames) {
    return walk(bounds, nullptr, frames, {}).frames;
  }

  /// The same frames, found with the help of the thread's earlier walks, and also as words, for which there is as much
  /// room as for frames.
  [[gnu::always_inline]] Walked unwind(StackBounds& bounds, EarlierWalks& earlier, std::span<FrameKey> frames,
                                       StackWords words) {
    return walk(bounds, &earlier, frames, words);
  }

  /// For systems whose loader can't be queried without its lock (see CodeMap): asks it for new modules. One thread at a
  /// time, often; until then stacks end at code in unknown modules.
  void refresh() { code_.refresh(); }

  /// Modules were unloaded, so other code may be at known addresses: call it when ModuleTable::refresh() says so. A
  /// module that replaced another is usually noticed earlier, when code is seen that the other did not have.
  void forget();

 private:
  class Walk;

  /// Never inlined, as the one above always is: the first reported frame is this function's caller.
  Walked walk(StackBounds& bounds, EarlierWalks* earlier, std::span<FrameKey> frames, StackWords words);
  UnwindRule learn(std::uintptr_t return_address);

  CodeMap code_;
  RuleCache rules_;
  std::atomic<std::uint32_t> generation_ = 0;  // raised whenever rules are forgotten
  SeenModules seen_modules_;
};

}  // namespace memreel::stacks
