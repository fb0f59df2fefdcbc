// The Python frames of a thread, and what its next walk need not find out again.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "collector/stacks/frame_key.h"
#include "collector/stacks/merge.h"

namespace memreel::python {

/// All zero bytes is its first state: it may lie in fresh memory from mmap, and need not be constructed. Used by one
/// thread at a time. 230 KiB, touched as it fills.
///
/// Between two walks most of a thread's frames stay as they are. So each frame is kept as it was read, and one number
/// stands for it and all its callers: an unchanged frame costs a comparison, a changed one a number for itself and for
/// those it called, and the whole chain is one word.
class FrameChain {
 public:
  /// Frames of the longest chain. Of a longer one the innermost are known.
  static constexpr std::size_t longest = 2048;

  struct Meaning {
    stacks::FrameKey key;  // all zero bits: not shown
    bool is_entry;         // native code called it, or the next inner frame that is shown

    friend bool operator==(const Meaning&, const Meaning&) = default;
  };

  /// A frame as it lies in memory, so that it can be compared.
  struct Seen {
    const void* frame;
    const void* code;
    std::uint32_t instruction;  // of an address the lower half: no two instructions of a code object have the same
    std::uint32_t
        version;  // tells the code from what may take its place; 0: nothing does, the frame has to be read again
    std::uintptr_t is_shim : 1;   // no frame of Python's: of its code nothing is known but where it is
    std::uintptr_t mark : 1;      // the frame's own, where it has one
    std::uintptr_t has_self : 1;  // it counts which object the frame is a call of
    std::uintptr_t self : 61;     // which one
  };
  static_assert(sizeof(Seen) == 32);  // two to a line of the cache: all of them are looked at in every walk

  /// Brings the chain up to date, beginning at the frame at `innermost`; null: there are none. `reader` reads frames:
  /// `const void* read(const void* frame, Seen&, Meaning&)` replaces what was read earlier, of this frame or another
  /// one, or zeros, and returns the caller (in place: a copy would have to wait for its parts to be written);
  /// `comparison()` gives what says `(const Seen&, const void* caller)` whether reading the frame again would give the
  /// same. (A value, so that what it goes by stays in registers while it is asked for all frames.)
  ///
  /// Returns a number for the frames that are shown, below 2^62: a hash. Equal frames have the same number always,
  /// those that differ hardly ever: of ten million chains two with a probability of 1 in 90,000. 0: none.
  template <class Reader>
  std::uint64_t follow(const void* innermost, Reader& reader) {
    if (!update(innermost, reader)) {
      count_ = 0;
      update(innermost, reader);
    }
    return count_ == 0 ? 0 : outwards_[count_ - 1].number;
  }

  /// Writes the frames that follow() found, innermost first, as many as fit; returns how many.
  std::size_t frames(std::span<stacks::PythonFrame> frames) const;

 private:
  struct Fresh {
    Seen seen;
    Meaning meaning;
    const void* caller;
  };

  /// What a frame means, and the number of the chain from there on outwards.
  struct Outwards {
    Meaning meaning;
    std::uint64_t number;
  };

  /// False when what is kept does not lead to what is to be found; it may be half changed then.
  template <class Reader>
  [[gnu::hot]] bool update(const void* frame, Reader& reader) {
    std::size_t fresh = 0, kept = 0;
    for (; frame != nullptr && fresh < longest; frame = fresh_[fresh++].caller) {
      kept = place_of(frame);
      if (kept != 0) break;
      fresh_[fresh].caller = reader.read(frame, fresh_[fresh].seen, fresh_[fresh].meaning);
    }
    // Which frames a chain is cut after must not depend on the chain before.
    const bool is_cut = kept != 0 && cut_after_ != nullptr;
    if (kept + fresh > longest || (is_cut && kept + fresh != longest)) return false;
    if (kept == 0) cut_after_ = frame;

    const auto is_unchanged = reader.comparison();
    std::size_t changed = kept;
    for (std::size_t i = kept; i-- > 0;) {
      const void* const caller = i > 0 ? seen_[i - 1].frame : cut_after_;
      if (is_unchanged(seen_[i], caller)) continue;
      const Meaning before = outwards_[i].meaning;
      if (reader.read(seen_[i].frame, seen_[i], outwards_[i].meaning) != caller) return false;
      if (outwards_[i].meaning != before) changed = i;
    }
    count_ = kept;
    while (fresh > 0) add(fresh_[--fresh]);
    for (std::size_t i = changed; i < count_; ++i)
      outwards_[i].number = number_of(outwards_[i].meaning, i == 0 ? 0 : outwards_[i - 1].number);
    return true;
  }

  /// How many frames there are up to this one; 0: it is not known where it is.
  std::size_t place_of(const void* frame) const {
    if (count_ != 0 && seen_[count_ - 1].frame == frame) return count_;
    const std::size_t place = places_[slot_of(frame)];
    return place != 0 && place <= count_ && seen_[place - 1].frame == frame ? place : 0;
  }
  void add(const Fresh& fresh) {
    seen_[count_] = fresh.seen;
    outwards_[count_].meaning = fresh.meaning;
    places_[slot_of(fresh.seen.frame)] = static_cast<std::uint16_t>(++count_);
  }
  static constexpr std::uint64_t odd = 0x9E3779B97F4A7C15;  // 2^64 / golden ratio

  static std::uint64_t number_of(Meaning meaning, std::uint64_t callers) {
    if (meaning.key == stacks::FrameKey{} && !meaning.is_entry) return callers;
    // Of a Python frame's key the uppermost bit is always set, so it has room for another meaning.
    const std::uint64_t frame = std::rotl(meaning.key.bits, 1) ^ (meaning.is_entry ? 1U : 0U);
    // Multiplication carries bits upwards only; folding brings the well mixed upper half down.
    std::uint64_t mixed = (frame ^ std::rotl(callers, 23)) * odd;
    mixed = (mixed ^ mixed >> 32U) * 0xD6E8FEB86659FD93;
    mixed = (mixed ^ mixed >> 32U) * odd;
    return std::max<std::uint64_t>(mixed >> 2U, 1);
  }

  static std::size_t slot_of(const void* frame) {
    return reinterpret_cast<std::uintptr_t>(frame) * odd >> (64 - std::countr_zero(2 * longest));
  }

  // What every walk asks for is one line of the cache, which mostly has none of it any more when the program has
  // worked meanwhile.
  alignas(64) std::size_t count_;
  const void* cut_after_;  // the caller of the outermost; null, unless the chain was too long

  // Of the chain as it is, outermost first.
  std::array<Seen, longest> seen_;
  std::array<Outwards, longest> outwards_;

  std::array<Fresh, longest> fresh_;  // in a walk: those that are new, innermost first
  std::array<std::uint16_t, 2 * longest> places_;
};

}  // namespace memreel::python
