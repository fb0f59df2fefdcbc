// SPDX-License-Identifier: Apache-2.0
// Parts of a stack that a thread walked before: the next walk takes each in one step.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "collector/stacks/stack_memory.h"
#include "collector/stacks/stack_tree.h"

namespace memreel::stacks {

/// The state of a walk: a frame that will resume at `address`, with these registers.
struct WalkState {
  std::uintptr_t address, rsp, rbp;
};

/// A walk's course from one address on, frame by frame.
///
/// A walk's course is determined by its state, the unwind rules of the code, and the stack words it reads: return
/// addresses, and those saved frame pointers that a later frame's CFA depends on. A stretch stores their positions, in
/// words above the stack pointer at its entry, and their values: return addresses verbatim, frame pointers as
/// distances. If a walk reaches the same address and finds the same values in the same places, the rules would take it
/// the same way, however deep the stack is now and on whichever fibre. So nothing is guessed: everything the rules
/// would have read is read again, but all at once instead of in dependent loads.
struct alignas(64) Stretch {
  static constexpr std::size_t longest = 7;  // fits two cache lines
  using Words = std::uint16_t;
  static constexpr Words nowhere = 0xFFFF;

  std::uintptr_t begin;                         // the address at which the walk enters it; 0: no stretch
  std::uint64_t number;                         // unique within a thread, forever
  std::array<std::uintptr_t, longest> callers;  // return addresses, innermost first
  std::array<Words, longest> caller_at;
  std::array<Words, longest> base_at;  // where the caller's rbp was saved; nowhere: it was unchanged
  std::array<Words, longest> base;     // its value, if a later frame is measured from it; 0: any
  Words entry_base;                    // rbp at the entry, if a frame is measured from it; else nowhere
  Words exit_base_at;                  // where the last saved rbp was; nowhere: it was unchanged throughout
  std::uint8_t count;                  // the callers after this many repeat from the first
  std::uint8_t measured;               // bit i: base[i] is not 0
};
static_assert(sizeof(Stretch) == 128);

/// The stretches of one thread. All-zero bytes are the initial state: it may live in fresh mmap memory without being
/// constructed. 128 KiB, touched as it fills.
class Stretches {
 public:
  /// Whether a stretch ends here although it could continue: decided by its last address, so that walks with different
  /// starts soon share stretches.
  static bool ends_at(std::uintptr_t address) { return mixed(address) >> 60U == 0; }

  const Stretch* find(std::uintptr_t begin) const {
    for (const Stretch& stretch : sets_[index_of(begin)])
      if (stretch.begin == begin) return &stretch;
    return nullptr;
  }

  /// Replaces an older one if needed.
  void put(const Stretch& stretch) {
    auto& [newest, older] = sets_[index_of(stretch.begin)];
    if (newest.begin != stretch.begin) older = newest;
    newest = stretch;
    newest.number = ++last_number_;
  }

  /// Call when the rules behind the stretches are forgotten.
  void forget() {
    for (auto& set : sets_)
      for (Stretch& stretch : set) stretch.begin = 0;
  }

 private:
  static constexpr unsigned index_bits = 9;

  static std::uint64_t mixed(std::uintptr_t address) { return address * 0x9E3779B97F4A7C15; }
  static std::size_t index_of(std::uintptr_t address) { return mixed(address) << 4U >> (64 - index_bits); }

  std::array<std::array<Stretch, 2>, 1U << index_bits> sets_;
  std::uint64_t last_number_;
};

/// Records a stretch from the steps of a rule-based walk.
class StretchInMaking {
 public:
  StretchInMaking() { stretch_.begin = stretch_.count = 0; }  // nothing else: most walks make none

  bool begun() const { return stretch_.begin != 0; }

  void begin(const WalkState& state) {
    stretch_.begin = state.address;
    stretch_.entry_base = Stretch::nowhere;
    stretch_.count = stretch_.measured = 0;
    entry_ = state.rsp;
    base_from_ = no_frame;
  }

  /// A step to the frame at `cfa`, which was found from rbp (now `measured_from`) or, if that is 0, from the stack
  /// pointer; its rbp was read at `base_at`, or unchanged (0). False if a stretch can't represent the step: it then
  /// ends before it.
  bool add(std::uintptr_t caller, std::uintptr_t cfa, std::uintptr_t measured_from, std::uintptr_t base_at) {
    Stretch::Words at = 0, saved_at = Stretch::nowhere, base = 0;
    if (!words_to(cfa - sizeof cfa, at)) return false;
    if (base_at != 0 && !words_to(base_at, saved_at)) return false;
    if (measured_from != 0) {
      if (!words_to(measured_from, base)) return false;
      if (base_from_ != no_frame && base == 0) return false;
      (base_from_ == no_frame ? stretch_.entry_base : stretch_.base.at(base_from_)) = base;
      if (base_from_ != no_frame) stretch_.measured = static_cast<std::uint8_t>(stretch_.measured | 1U << base_from_);
    }
    const std::size_t i = stretch_.count++;
    stretch_.callers.at(i) = caller;
    stretch_.caller_at.at(i) = at;
    stretch_.base_at.at(i) = saved_at;
    stretch_.base.at(i) = 0;
    if (base_at != 0) base_from_ = i;
    return true;
  }

  bool complete() const {
    return stretch_.count == Stretch::longest || Stretches::ends_at(stretch_.callers.at(stretch_.count - 1U));
  }

  /// Stores the stretch, if any, and starts another.
  void end(Stretches& stretches) {
    if (stretch_.count > 0) {
      stretch_.exit_base_at = base_from_ == no_frame ? Stretch::nowhere : stretch_.base_at.at(base_from_);
      for (std::size_t i = stretch_.count; i < Stretch::longest; ++i) {
        stretch_.callers.at(i) = stretch_.callers[0];
        stretch_.caller_at.at(i) = stretch_.caller_at[0];
      }
      stretches.put(stretch_);
    }
    stretch_.begin = stretch_.count = 0;
  }

 private:
  static constexpr std::size_t no_frame = ~std::size_t{0};

  bool words_to(std::uintptr_t address, Stretch::Words& words) const {
    const std::uintptr_t distance = address - entry_;
    if (distance % sizeof distance != 0 || distance / sizeof distance >= Stretch::nowhere) return false;
    words = static_cast<Stretch::Words>(distance / sizeof distance);
    return true;
  }

  Stretch stretch_;
  std::uintptr_t entry_ = 0;
  std::size_t base_from_ = no_frame;  // the frame in which rbp was last restored
};

/// Whether the stack is unchanged along the whole stretch. Reads all of it at once: few branches, no dependent loads.
inline bool is_as_it_was(const Stretch& stretch, std::uintptr_t entry) {
  std::uintptr_t difference = 0;
  for (std::size_t i = 0; i < Stretch::longest; ++i)
    difference |= StackMemory::covered(entry, stretch.caller_at[i]) ^ stretch.callers[i];
  for (unsigned left = stretch.measured; left != 0; left &= left - 1) {
    const auto i = static_cast<std::size_t>(std::countr_zero(left));
    difference |= StackMemory::covered(entry, stretch.base_at[i]) ^ (entry + stretch.base[i] * sizeof entry);
  }
  return difference == 0;
}

/// How many callers match before the first change.
inline std::size_t as_it_was(const Stretch& stretch, std::uintptr_t entry) {
  for (std::size_t i = 0; i < stretch.count; ++i) {
    if (StackMemory::covered(entry, stretch.caller_at[i]) != stretch.callers[i]) return i;
    const bool measured = (stretch.measured >> i & 1U) != 0;
    if (measured && StackMemory::covered(entry, stretch.base_at[i]) != entry + stretch.base[i] * sizeof entry)
      return i + 1;
  }
  return stretch.count;
}

/// Follows a stretch as far as the stack is unchanged, and writes the callers it passes to `callers`, which has room
/// for Stretch::longest. Returns how many; `state` is then that of the last of them.
[[gnu::always_inline]] inline std::size_t follow(const Stretch& stretch, const StackMemory& memory, WalkState& state,
                                                 FrameKey* callers) {
  constexpr std::size_t word = sizeof(std::uintptr_t);
  const std::uintptr_t entry = state.rsp;
  if (entry % word != 0 || !memory.covers(entry, (stretch.caller_at[stretch.count - 1U] + std::size_t{1}) * word))
    return 0;
  if (stretch.entry_base != Stretch::nowhere && state.rbp != entry + stretch.entry_base * word) return 0;
  std::size_t count = stretch.count;
  Stretch::Words base_at = stretch.exit_base_at;
  if (!is_as_it_was(stretch, entry)) {
    count = as_it_was(stretch, entry);
    if (count == 0) return 0;
    base_at = Stretch::nowhere;
    for (std::size_t i = 0; i < count; ++i)
      if (stretch.base_at[i] != Stretch::nowhere) base_at = stretch.base_at[i];
  }
  for (std::size_t i = 0; i < Stretch::longest; ++i) callers[i] = FrameKey::native(stretch.callers[i]);
  state.address = stretch.callers[count - 1];
  state.rsp = entry + (stretch.caller_at[count - 1] + std::size_t{1}) * word;
  if (base_at != Stretch::nowhere) state.rbp = StackMemory::covered(entry, base_at);
  return count;
}

}  // namespace memreel::stacks
