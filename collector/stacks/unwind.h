// The native stack of the calling thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "collector/stacks/code_map.h"
#include "collector/stacks/frame_key.h"
#include "collector/stacks/recent_walks.h"
#include "collector/stacks/seen_modules.h"
#include "collector/stacks/stack_memory.h"
#include "collector/stacks/stretches.h"
#include "collector/stacks/unwind_rule.h"

namespace memreel::stacks {

/// A stack in words: equal words, of the same EarlierWalks, are equal frames, but not the other way round. There are at
/// most as many as frames; of a stack that came lately there is one.
using StackWords = std::span<std::uint64_t>;

/// How many frames and words a walk gave.
struct Walked {
  std::size_t frames = 0, words = 0;
  RecentWalks::Walk* known = nullptr;  // who has the frames; null: they were written
};

/// What a thread's walks leave for its next ones. All zero bytes is its first state, as of its parts.
struct EarlierWalks {
  std::uint32_t generation;  // of the rules that all of it was found by
  Stretches stretches;
  RecentWalks recent;

  /// Forgets all that was found by the rules of another generation.
  void belong_to(std::uint32_t current) {
    if (generation == current) return;
    generation = current;
    stretches.forget();
    recent.forget();
  }

  /// Writes the frames of the last walk, unless that did.
  void write_frames(const Walked& walked, std::span<FrameKey> frames) const {
    if (walked.known != nullptr && walked.frames <= frames.size()) recent.write_frames(*walked.known, frames.data());
  }
};

/// One for the process, made when the agent starts, never destroyed while threads may capture. Any thread may unwind at
/// any time: no lock that another thread may hold, no allocation, no system call, except
///  - on a thread's first capture, which asks for the bounds of its stack,
///  - where code is met that was not met lately: whether its module's headers can be read is asked of the kernel,
///  - on a stack that is not its thread's own, for every page of it.
/// 300 KB, of which pages are used as code is met: not an object for a stack.
class Unwinder {
 public:
  explicit Unwinder(CodeMap::Source source = CodeMap::Source::loader) : code_(source) {}

  /// The native frames of the calling thread, innermost first, as many as fit; returns how many. The first is where the
  /// caller of unwind() goes on. What a signal interrupted appears as the address after its first byte, so that
  /// code_address() lies in the code that each frame stands for. Stops, without harm, where the stack can't be read or
  /// understood. `bounds` is kept between the calls of a thread; another thread's are replaced.
  [[gnu::always_inline]] std::size_t unwind(StackBounds& bounds, std::span<FrameKey> frames) {
    return walk(bounds, nullptr, frames, {}).frames;
  }

  /// The same frames, found by way of what the thread's earlier walks have left, and in words as well, of which there
  /// is room for as many as frames.
  [[gnu::always_inline]] Walked unwind(StackBounds& bounds, EarlierWalks& earlier, std::span<FrameKey> frames,
                                       StackWords words) {
    return walk(bounds, &earlier, frames, words);
  }

  /// For systems whose loader can't be asked without its lock (see CodeMap): asks it for new modules. By one thread at
  /// a time, often; until then stacks end at code of modules that are not known yet.
  void refresh() { code_.refresh(); }

  /// Modules are gone, so code at known addresses may be another's: to be called when ModuleTable::refresh() says so. A
  /// module in the place of another is mostly noticed before, when code of it is met that the other did not have.
  void forget();

 private:
  class Walk;

  /// Never inlined, as the one above always is: the first frame that is reported is that of who calls this.
  Walked walk(StackBounds& bounds, EarlierWalks* earlier, std::span<FrameKey> frames, StackWords words);
  UnwindRule learn(std::uintptr_t return_address);

  CodeMap code_;
  RuleCache rules_;
  std::atomic<std::uint32_t> generation_ = 0;  // raised whenever rules are forgotten
  SeenModules seen_modules_;
};

}  // namespace memreel::stacks
