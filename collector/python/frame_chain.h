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

namespace chain_hash {

inline constexpr std::uint64_t odd = 0x9E3779B97F4A7C15;  // 2^64 / golden ratio
inline constexpr std::uint64_t other_odd = 0xD6E8FEB86659FD93;

/// Multiplication carries bits upwards only; folding brings the well mixed upper half down.
constexpr std::uint64_t mixed(std::uint64_t bits) {
  bits *= odd;
  bits = (bits ^ bits >> 32U) * other_odd;
  return bits ^ bits >> 32U;
}

/// Odd, and otherwise arbitrary.
inline constexpr std::array<std::uint64_t, 16> keys = [] {
  std::array<std::uint64_t, 16> made{};
  for (std::size_t i = 0; i < made.size(); ++i) made[i] = mixed(i + 1) | 1U;
  return made;
}();

}  // namespace chain_hash

/// All zero bytes is its first state: it may lie in fresh memory from mmap, and need not be constructed. Used by one
/// thread at a time. 280 KiB, touched as it fills.
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
        version;    // tells the code from what may take its place; 0: nothing does, the frame has to be read again
    bool is_shim;   // no frame of Python's: of its code nothing is known but where it is
    bool mark;      // the frame's own, where it has one
    bool has_self;  // it counts which object the frame is a call of
  };
  static_assert(sizeof(Seen) == 32);  // two to a line of the cache: all of them are looked at in every walk

  /// Brings the chain up to date, beginning at the frame at `innermost`; null: there are none. `reader` reads frames:
  /// `const void* read(const void* frame, Seen&, Meaning&)` replaces what was read earlier, of this frame or another
  /// one, or zeros, and returns the caller (in place: a copy would have to wait for its parts to be written);
  /// `comparison()` gives what says `(const Seen&, const void* caller)` whether reading the frame again would give the
  /// same; `identity()` what says of a frame that has a `self` which object that is, `(const void* frame)`, as a
  /// number. (Values, so that what they go by stays in registers while they are asked for all frames.)
  ///
  /// Returns a number for the frames that are shown, below 2^62: a hash. Equal frames have the same number always,
  /// those that differ hardly ever: of ten million chains two with a probability of 1 in 90,000. 0: none.
  template <class Reader>
  std::uint64_t follow(const void* innermost, Reader& reader) {
    if (!update(innermost, reader)) {
      count_ = 0;
      update(innermost, reader);
    }
    const std::uint64_t frames = count_ == 0 ? 0 : outwards_[count_ - 1].hash;
    return frames == 0 ? 0 : number_of(frames + hash_of_selves(reader.identity()));
  }

  /// Writes the frames that follow() found, innermost first, as many as fit; returns how many. `key_of(const Seen&,
  /// FrameKey)` gives the key under which a frame is kept that has a `self`.
  template <class KeyOf>
  std::size_t frames(std::span<stacks::PythonFrame> frames, KeyOf key_of) const {
    std::size_t count = 0;
    for (std::size_t i = count_; i-- > 0;) {
      const auto [key, is_entry] = outwards_[i].meaning;
      if (key != stacks::FrameKey{}) {
        if (count == frames.size()) break;
        frames[count++] = {seen_[i].has_self ? key_of(seen_[i], key) : key, false};
      }
      if (is_entry && count > 0) frames[count - 1].is_entry = true;
    }
    return count;
  }

 private:
  struct Fresh {
    Seen seen;
    Meaning meaning;
    const void* caller;
  };

  /// What a frame means, and a hash of the chain from there on outwards.
  struct Outwards {
    Meaning meaning;
    std::uint64_t own_hash;  // of the frame alone; 0: it is not shown
    std::uint64_t hash;      // 0: no frame is shown
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
    bool calls_changed = false;
    for (std::size_t i = kept; i-- > 0;) {
      const void* const caller = i > 0 ? seen_[i - 1].frame : cut_after_;
      if (is_unchanged(seen_[i], caller)) continue;
      const Meaning before = outwards_[i].meaning;
      const bool had_self = seen_[i].has_self;
      if (reader.read(seen_[i].frame, seen_[i], outwards_[i].meaning) != caller) return false;
      calls_changed |= seen_[i].has_self != had_self;
      if (outwards_[i].meaning == before) continue;
      outwards_[i].own_hash = hash_of(outwards_[i].meaning);
      changed = i;
    }
    count_ = kept;
    if (calls_changed)
      find_calls();
    else
      while (calls_count_ != 0 && calls_[calls_count_ - 1].place >= kept) --calls_count_;
    while (fresh > 0) add(fresh_[--fresh]);
    std::uint64_t hash = changed == 0 ? 0 : outwards_[changed - 1].hash;
    for (std::size_t i = changed; i < count_; ++i) outwards_[i].hash = hash = with(outwards_[i].own_hash, hash);
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
    outwards_[count_].own_hash = hash_of(fresh.meaning);
    if (fresh.seen.has_self) calls_[calls_count_++] = {fresh.seen.frame, count_};
    places_[slot_of(fresh.seen.frame)] = static_cast<std::uint16_t>(++count_);
  }

  void find_calls() {
    calls_count_ = 0;
    for (std::size_t i = 0; i < count_; ++i)
      if (seen_[i].has_self) calls_[calls_count_++] = {seen_[i].frame, i};
  }

  /// Which objects the frames are calls of. Asked in every walk: a model's layers are called by the same frames one
  /// after the other. Each is multiplied by a key of its place and added, so that none has to wait for another
  /// (multilinear hashing: Lemire and Kaser, "Strongly universal string hashing is fast", 2014).
  template <class Identity>
  std::uint64_t hash_of_selves(Identity identity) const {
    std::uint64_t hash = 0;
    for (std::size_t i = 0; i < calls_count_; ++i) {
      if (i != 0 && i % chain_hash::keys.size() == 0) hash = chain_hash::mixed(hash);
      hash += identity(calls_[i].frame) * chain_hash::keys[i % chain_hash::keys.size()];
    }
    return hash;
  }

  /// Of a frame alone.
  static std::uint64_t hash_of(Meaning meaning) {
    if (meaning.key == stacks::FrameKey{} && !meaning.is_entry) return 0;
    // Of a Python frame's key the uppermost bit is always set, so it has room for another meaning.
    return chain_hash::mixed(std::rotl(meaning.key.bits, 1) ^ (meaning.is_entry ? 1U : 0U));
  }

  /// Of a frame and those that called it. Each has to wait for the one before, so this is one multiplication: where an
  /// outer frame changes, all inner ones pass here.
  static std::uint64_t with(std::uint64_t frame, std::uint64_t callers) {
    return frame == 0 ? callers : std::rotl(callers, 23) * chain_hash::odd + frame;
  }

  static std::uint64_t number_of(std::uint64_t hash) {
    return hash == 0 ? 0 : std::max<std::uint64_t>((hash ^ hash >> 32U) * chain_hash::other_odd >> 2U, 1);
  }

  static std::size_t slot_of(const void* frame) {
    return reinterpret_cast<std::uintptr_t>(frame) * chain_hash::odd >> (64 - std::countr_zero(2 * longest));
  }

  // What every walk asks for is one line of the cache, which mostly has none of it any more when the program has
  // worked meanwhile.
  alignas(64) std::size_t count_;
  const void* cut_after_;  // the caller of the outermost; null, unless the chain was too long

  /// A frame that has a `self`.
  struct Call {
    const void* frame;
    std::size_t place;  // in seen_
  };

  // Of the chain as it is, outermost first.
  std::size_t calls_count_;
  std::array<Call, longest> calls_;
  std::array<Seen, longest> seen_;
  std::array<Outwards, longest> outwards_;

  std::array<Fresh, longest> fresh_;  // in a walk: those that are new, innermost first
  std::array<std::uint16_t, 2 * longest> places_;
};

}  // namespace memreel::python
