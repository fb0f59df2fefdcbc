// The Python frames of a thread, and what its next walk need not find out again.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
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
    bool has_self;         // it counts which object the frame is a call of

    friend bool operator==(const Meaning&, const Meaning&) = default;
  };

  /// A frame as it lies in memory, so that it can be compared.
  struct Seen {
    const void* frame;
    const void* code;
    std::uint32_t instruction;  // of an address the lower half: no two instructions of a code object have the same
    std::uint32_t
        version;  // tells the code from what may take its place; 0: nothing does, the frame has to be read again
    const void* version_at;  // where the version is, once the code is known to be the same; null: no frame of Python's
  };
  static_assert(sizeof(Seen) == 32);  // two to a line of the cache: all of them are looked at in every walk

  /// Brings the chain up to date, beginning at the frame at `innermost`; null: there are none. `reader` reads frames:
  /// `const void* read(const void* frame, Seen&, Meaning&)` replaces what was read earlier, of this frame or another
  /// one, or zeros, and returns the caller (in place: a copy would have to wait for its parts to be written);
  /// `comparison()` gives what says `(const Seen&, const void* frame, const void* caller)` whether reading the frame,
  /// which is Seen's, again would give the same (a value, so that what it goes by stays in registers while it is asked
  /// for all frames); `self_at(frame)` says where a frame that has a `self` keeps its address, of which the two lowest
  /// bits don't count; `names()` is a number that changes when the same objects are to be shown otherwise.
  ///
  /// Returns a number for the frames that are shown, below 2^62: a hash. Equal frames have the same number always,
  /// those that differ hardly ever: of ten million chains two with a probability of 1 in 90,000. 0: none.
  template <class Reader>
  std::uint64_t follow(const void* innermost, Reader& reader) {
    if (!update(innermost, reader)) {
      count_ = 0;
      update(innermost, reader);
    }
    return hash_ == 0 ? 0 : number_of(hash_ + hash_of_selves(reader.names()));
  }

  /// Writes the frames that follow() found, innermost first, as many as fit; returns how many. `key_of(const Seen&,
  /// FrameKey)` gives the key under which a frame is kept that has a `self`.
  template <class KeyOf>
  std::size_t frames(std::span<stacks::PythonFrame> frames, KeyOf key_of) const {
    std::size_t count = 0;
    for (std::size_t i = count_; i > 0; --i) {
      const Meaning& meaning = outwards_[i].meaning;
      if (meaning.key != stacks::FrameKey{}) {
        if (count == frames.size()) break;
        frames[count++] = {meaning.has_self ? key_of(seen_[i], meaning.key) : meaning.key, false};
      }
      if (meaning.is_entry && count > 0) frames[count - 1].is_entry = true;
    }
    return count;
  }

 private:
  struct Fresh {
    Seen seen;
    Meaning meaning;
    const void* caller;
  };

  /// What a frame means, and what is known of the chain from there on outwards.
  struct Outwards {
    Meaning meaning;
    std::uint32_t calls;     // how many frames have a `self`
    std::uint64_t own_hash;  // of the frame alone; 0: it is not shown
    std::uint64_t hash;      // of all but which objects are called; 0: no frame is shown
  };

  /// A frame that has a `self`: where its address is, and what that is multiplied by.
  struct Call {
    const void* self_at;
    std::uint64_t key;
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
    const bool is_cut = kept != 0 && seen_[0].frame != nullptr;
    if (kept + fresh > longest || (is_cut && kept + fresh != longest)) return false;
    if (kept == 0) seen_[0].frame = frame;

    const auto is_unchanged = reader.comparison();
    std::size_t unchanged = kept;  // so many, the outermost, mean what they did
    for (std::size_t i = changed_of(kept, is_unchanged); i != 0; i = changed_of(i - 1, is_unchanged)) {
      const Meaning before = outwards_[i].meaning;
      if (reader.read(seen_[i].frame, seen_[i], outwards_[i].meaning) != seen_[i - 1].frame) return false;
      if (outwards_[i].meaning == before) continue;
      outwards_[i].own_hash = hash_of(outwards_[i].meaning);
      unchanged = i - 1;
    }
    if (unchanged == count_ && fresh == 0) return true;  // as mostly, and without a look at what the frames mean
    count_ = kept;
    while (fresh > 0) add(fresh_[--fresh]);
    for (std::size_t i = unchanged + 1; i <= count_; ++i) look_outwards(i, reader);
    hash_ = outwards_[count_].hash;
    calls_count_ = outwards_[count_].calls;
    return true;
  }

  /// Of the `count` outermost frames the innermost that changed; 0: none did. Alone, so that what it goes by stays in
  /// registers: half of what an event costs may be spent here.
  template <class Comparison>
  [[gnu::hot, gnu::noinline]] std::size_t changed_of(std::size_t count, const Comparison& is_unchanged) const {
    const Comparison here = is_unchanged;
    const Seen* seen = &seen_[count];
    const void* frame = seen->frame;
    while (seen != seen_.data()) {
      const void* const caller = seen[-1].frame;
      if (!here(*seen, frame, caller)) break;
      frame = caller;
      --seen;
    }
    return static_cast<std::size_t>(seen - seen_.data());
  }

  /// How many frames there are up to this one; 0: it is not known where it is.
  std::size_t place_of(const void* frame) const {
    if (count_ != 0 && seen_[count_].frame == frame) return count_;
    const std::size_t place = places_[slot_of(frame)];
    return place <= count_ && seen_[place].frame == frame ? place : 0;
  }
  void add(const Fresh& fresh) {
    const std::size_t place = ++count_;
    seen_[place] = fresh.seen;
    outwards_[place].meaning = fresh.meaning;
    outwards_[place].own_hash = hash_of(fresh.meaning);
    places_[slot_of(fresh.seen.frame)] = static_cast<std::uint16_t>(place);
  }

  /// Of a frame and those that called it. Each has to wait for the one before, so the hash is one multiplication: where
  /// an outer frame changes, all inner ones pass here.
  template <class Reader>
  void look_outwards(std::size_t place, const Reader& reader) {
    const Outwards& callers = outwards_[place - 1];
    Outwards& all = outwards_[place];
    all.hash = all.own_hash == 0 ? callers.hash : std::rotl(callers.hash, 23) * chain_hash::odd + all.own_hash;
    all.calls = callers.calls;
    if (!all.meaning.has_self) return;
    Call& call = calls_[all.calls++];
    call.self_at = reader.self_at(seen_[place].frame);
    if (call.key == 0) call.key = chain_hash::mixed(all.calls) | 1U;  // odd, and otherwise arbitrary
  }

  /// Which objects the frames are calls of. Asked in every walk: a model's layers are called by the same frames one
  /// after the other. Each is multiplied by a key of its place and added, so that none has to wait for another
  /// (multilinear hashing: Lemire and Kaser, "Strongly universal string hashing is fast", 2014). They are told apart by
  /// their addresses, not by their types: to look at each object in each walk costs more than all the rest of the walk,
  /// and an object of another type at the same address mostly has another forward().
  std::uint64_t hash_of_selves(std::uint64_t names) const {
    constexpr std::uintptr_t tags = 3;  // since 3.14 they say who counts the reference
    std::uint64_t hash = calls_count_ == 0 ? 0 : names * chain_hash::odd;
    for (const Call& call : std::span(calls_).first(calls_count_)) {
      std::uintptr_t self = 0;
      std::memcpy(&self, call.self_at, sizeof self);
      hash += (self & ~tags) * call.key;
    }
    return hash;
  }

  /// Of a frame alone.
  static std::uint64_t hash_of(const Meaning& meaning) {
    if (meaning.key == stacks::FrameKey{} && !meaning.is_entry) return 0;
    // Of a Python frame's key the uppermost bit is always set, so it has room for another meaning.
    return chain_hash::mixed(std::rotl(meaning.key.bits, 1) ^ (meaning.is_entry ? 1U : 0U));
  }

  static std::uint64_t number_of(std::uint64_t hash) {
    return std::max<std::uint64_t>((hash ^ hash >> 32U) * chain_hash::other_odd >> 2U, 1);
  }

  static std::size_t slot_of(const void* frame) {
    return reinterpret_cast<std::uintptr_t>(frame) * chain_hash::odd >> (64 - std::countr_zero(2 * longest));
  }

  // What every walk asks for comes first, in as few lines of the cache as can be: the program's own work has mostly
  // driven them out meanwhile.
  alignas(64) std::size_t count_;
  std::uint64_t hash_;  // of all frames but their objects; 0: none is shown
  std::uint64_t calls_count_;
  std::array<Call, longest> calls_;

  // Of the chain as it is, outermost first, from 1 on.
  std::array<Seen, longest + 1> seen_;  // 0: the caller of the outermost; null, unless the chain was too long
  std::array<Outwards, longest + 1> outwards_;

  std::array<Fresh, longest> fresh_;  // in a walk: those that are new, innermost first
  std::array<std::uint16_t, 2 * longest> places_;
};

}  // namespace memreel::python
