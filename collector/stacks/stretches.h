// Stretches of stack that a thread walked before: the next walk takes each in one step.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "collector/stacks/frame_key.h"
#include "collector/stacks/stack_memory.h"

namespace memreel::stacks {

/// Where a walk is: in a frame that will go on at `address`, with these registers.
struct WalkState {
  std::uintptr_t address, rsp, rbp;
};

/// How a walk went from one address on, frame by frame.
///
/// Where a walk leads is decided by its state, the rules of the code, and the words that it reads from the stack:
/// return addresses, and those saved frame pointers that a later frame is measured from. A stretch keeps where they
/// were, in words above the stack pointer that it was entered with, and what they were: return addresses as they are,
/// frame pointers as distances. Where a walk comes to the same address and finds the same in the same places, its rules
/// would lead it the same way, however deep the stack is now and whichever fibre's. So nothing is guessed: all that the
/// rules would have read is read again, but at once instead of one load after the other.
struct alignas(64) Stretch {
  static constexpr std::size_t longest = 7;  // with which it takes two lines of the cache
  using Words = std::uint16_t;
  static constexpr Words nowhere = 0xFFFF;

  std::uintptr_t begin;                         // the address that the walk came to; 0: no stretch
  std::uint64_t number;                         // no two of a thread have the same, ever
  std::array<std::uintptr_t, longest> callers;  // return addresses, innermost first
  std::array<Words, longest> caller_at;
  std::array<Words, longest> base_at;  // where the caller's rbp was saved, or nowhere: it was left alone
  std::array<Words, longest> base;     // what was in it, when a later frame is measured from it; 0: whatever
  Words entry_base;                    // rbp at the beginning, when a frame is measured from that; else nowhere
  std::uint16_t count;
};
static_assert(sizeof(Stretch) == 128);

/// The stretches of one thread. All zero bytes is its first state: it may lie in fresh memory from mmap, and need not
/// be constructed. 128 KiB, touched as it fills.
class Stretches {
 public:
  /// How often a stretch ends although it could go on: by its last address, so that walks which differ at their
  /// beginnings soon have the same stretches.
  static bool ends_at(std::uintptr_t address) { return mixed(address) >> 61U == 0; }

  const Stretch* find(std::uintptr_t begin) const {
    for (const Stretch& stretch : sets_[index_of(begin)])
      if (stretch.begin == begin) return &stretch;
    return nullptr;
  }

  /// In the place of one that was there longer, if need be.
  void put(const Stretch& stretch) {
    auto& [newest, older] = sets_[index_of(stretch.begin)];
    if (newest.begin != stretch.begin) older = newest;
    newest = stretch;
    newest.number = ++last_number_;
  }

  /// Forgets all when `generation`, which the rules belong to, is not the one that they were made under.
  void belong_to(std::uint32_t generation) {
    if (generation_ == generation) return;
    generation_ = generation;
    for (auto& set : sets_)
      for (Stretch& stretch : set) stretch.begin = 0;
  }

 private:
  static constexpr unsigned index_bits = 9;

  static std::uint64_t mixed(std::uintptr_t address) { return address * 0x9E3779B97F4A7C15; }
  static std::size_t index_of(std::uintptr_t address) { return mixed(address) << 3U >> (64 - index_bits); }

  std::array<std::array<Stretch, 2>, 1U << index_bits> sets_;
  std::uint64_t last_number_;
  std::uint32_t generation_;
};

/// Makes a stretch of the steps that a walk does by rules.
class StretchInMaking {
 public:
  StretchInMaking() { stretch_.begin = stretch_.count = 0; }  // and nothing else: most walks make none

  bool begun() const { return stretch_.begin != 0; }

  void begin(const WalkState& state) {
    stretch_ = {};
    stretch_.begin = state.address;
    stretch_.entry_base = Stretch::nowhere;
    entry_ = state.rsp;
    base_from_ = no_frame;
  }

  /// A step to the frame at `cfa`, which was found from rbp (now `measured_from`) or, when that is 0, from the stack
  /// pointer; its rbp was read at `base_at`, or left alone (0). False when a stretch can't say that: then it ends
  /// before.
  bool add(std::uintptr_t caller, std::uintptr_t cfa, std::uintptr_t measured_from, std::uintptr_t base_at) {
    Stretch::Words at = 0, saved_at = Stretch::nowhere, base = 0;
    if (!words_to(cfa - sizeof cfa, at)) return false;
    if (base_at != 0 && !words_to(base_at, saved_at)) return false;
    if (measured_from != 0) {
      if (!words_to(measured_from, base)) return false;
      if (base_from_ == no_frame)
        stretch_.entry_base = base;
      else if (base != 0)
        stretch_.base.at(base_from_) = base;
      else
        return false;
    }
    const std::size_t i = stretch_.count++;
    stretch_.callers.at(i) = caller;
    stretch_.caller_at.at(i) = at;
    stretch_.base_at.at(i) = saved_at;
    if (base_at != 0) base_from_ = i;
    return true;
  }

  bool complete() const {
    return stretch_.count == Stretch::longest || Stretches::ends_at(stretch_.callers.at(stretch_.count - 1U));
  }

  /// Keeps what was made, if anything, and is ready for another.
  void end(Stretches& stretches) {
    if (stretch_.count > 0) stretches.put(stretch_);
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
  std::size_t base_from_ = no_frame;  // the frame that rbp was last restored in
};

/// Walks along a stretch as far as the stack is as it was, and to `callers`, which has room for all of it, writes those
/// that it comes by. Returns how many; `state` is then that of the last of them.
inline std::size_t follow(const Stretch& stretch, const StackMemory& memory, WalkState& state, FrameKey* callers) {
  constexpr std::size_t word = sizeof(std::uintptr_t);
  const std::uintptr_t entry = state.rsp;
  if (entry % word != 0 || !memory.covers(entry, (stretch.caller_at[stretch.count - 1U] + std::size_t{1}) * word))
    return 0;
  std::uintptr_t base = state.rbp;
  if (stretch.entry_base != Stretch::nowhere && base != entry + stretch.entry_base * word) return 0;
  std::size_t count = 0;
  while (count < stretch.count) {
    const std::uintptr_t caller = memory.covered(entry + stretch.caller_at[count] * word);
    if (caller != stretch.callers[count]) break;
    const Stretch::Words saved_at = stretch.base_at[count], expected = stretch.base[count];
    callers[count++] = FrameKey::native(caller);
    if (saved_at == Stretch::nowhere) continue;
    base = memory.covered(entry + saved_at * word);
    if (expected != 0 && base != entry + expected * word) break;
  }
  if (count > 0)
    state = {.address = stretch.callers[count - 1],
             .rsp = entry + (stretch.caller_at[count - 1] + std::size_t{1}) * word,
             .rbp = base};
  return count;
}

}  // namespace memreel::stacks
