// SPDX-License-Identifier: Apache-2.0
// The Python frames of a thread, cached so that its next walk reads only what changed.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "collector/stacks/stack_tree.h"

namespace memreel::python {

namespace chain_hash {

inline constexpr std::uint64_t odd = 0x9E3779B97F4A7C15;  // 2^64 / golden ratio
inline constexpr std::uint64_t other_odd = 0xD6E8FEB86659FD93;

/// Multiplication only carries bits upwards; folding mixes the upper half into the lower.
constexpr std::uint64_t mixed(std::uint64_t bits) {
  bits *= odd;
  bits = (bits ^ bits >> 32U) * other_odd;
  return bits ^ bits >> 32U;
}

}  // namespace chain_hash

/// All-zero bytes are the initial state: it may live in fresh mmap memory without being constructed. Used by one thread
/// at a time. 280 KiB, touched as it fills.
///
/// Between two walks most of a thread's frames stay the same. So each frame is cached as read, with a hash of it and
/// all its callers: an unchanged frame costs one comparison; a changed one costs rehashing it and the frames it called;
/// and one word identifies the whole chain.
class FrameChain {
 public:
  /// Maximum frames of a chain. Of a longer one, the innermost are kept.
  static constexpr std::size_t longest = 2048;

  struct Meaning {
    stacks::FrameKey key;  // all zero bits: hidden
    bool is_entry;         // called by native code, or its innermost shown callee was
    bool has_self;         // the object that the frame is a call of matters

    friend bool operator==(const Meaning&, const Meaning&) = default;
  };

  /// A frame's raw contents, for comparison.
  struct Seen {
    const void* frame;
    const void* code;
    std::uint32_t instruction;  // the lower half for an address: no two instructions of a code object share it
    std::uint32_t
        version;  // tells the code from what may take its place; 0: nothing does, the frame has to be read again
    const void* version_at;  // where the version is, once the code is known to be the same; null: not a Python frame
  };
  static_assert(sizeof(Seen) == 32);  // two per cache line: every walk looks at all of them

  /// Updates the chain, starting from the frame at `innermost`; null: there are none. `reader` reads frames: `const
  /// void* read(const void* frame, Seen&, Meaning&)` overwrites the earlier contents, of this frame or another one, or
  /// zeros, and returns the caller (in place: a copy would stall until its parts are written); `comparison()` returns a
  /// callable `(const Seen&, const void* frame, const void* caller)` that says whether reading the frame that Seen
  /// describes again would give the same result (a value, so that its state stays in registers over all frames);
  /// `self_at(frame)` returns where a frame with a `self` keeps its address, whose two lowest bits are ignored;
  /// `names()` returns a number that changes when the same objects are to be shown differently.
  ///
  /// Returns a number below 2^62 for the shown frames: a hash. Equal frames always have the same number, different ones
  /// almost always different ones: among ten million chains, two collide with a probability of 1 in 90,000. 0: no
  /// frames.
  template <class Reader>
  std::uint64_t follow(const void* innermost, Reader& reader) {
    if (!update(innermost, reader)) {
      count_ = 0;
      update(innermost, reader);
    }
    return hash_ == 0 ? 0 : number_of(hash_ + hash_of_selves(reader.names()));
  }

  /// Writes the frames that follow() found, innermost first, as many as fit; returns how many. `key_of(const Seen&,
  /// FrameKey)` returns the key for a frame that has a `self`.
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

  /// A frame's meaning, and what is known about the chain from there outwards.
  struct Outwards {
    Meaning meaning;
    std::uint32_t calls;     // how many frames have a `self`
    std::uint64_t own_hash;  // of the frame alone; 0: hidden
    std::uint64_t hash;      // of everything except the called objects; 0: no frame is shown
  };

  /// A frame with a `self`: where its address is, and its multiplier in the hash.
  struct Call {
    const void* self_at;
    std::uint64_t key;
  };

  /// False if the cached chain does not lead to the result; it may then be half changed.
  template <class Reader>
  [[gnu::hot]] bool update(const void* frame, Reader& reader) {
    std::size_t fresh = 0, kept = 0;
    for (; frame != nullptr && fresh < longest; frame = fresh_[fresh++].caller) {
      kept = place_of(frame);
      if (kept != 0) break;
      fresh_[fresh].caller = reader.read(frame, fresh_[fresh].seen, fresh_[fresh].meaning);
    }
    // Where a chain is cut must not depend on the previous chain.
    const bool is_cut = kept != 0 && seen_[0].frame != nullptr;
    if (kept + fresh > longest || (is_cut && kept + fresh != longest)) return false;
    if (kept == 0) seen_[0].frame = frame;

    const auto is_unchanged = reader.comparison();
    std::size_t unchanged = kept;  // this many, the outermost, are unchanged
    for (std::size_t i = changed_of(kept, is_unchanged); i != 0; i = changed_of(i - 1, is_unchanged)) {
      const Meaning before = outwards_[i].meaning;
      if (reader.read(seen_[i].frame, seen_[i], outwards_[i].meaning) != seen_[i - 1].frame) return false;
      if (outwards_[i].meaning == before) continue;
      outwards_[i].own_hash = hash_of(outwards_[i].meaning);
      unchanged = i - 1;
    }
    if (unchanged == count_ && fresh == 0) return true;  // the usual case, without looking at what the frames mean
    count_ = kept;
    while (fresh > 0) add(fresh_[--fresh]);
    for (std::size_t i = unchanged + 1; i <= count_; ++i) look_outwards(i, reader);
    hash_ = outwards_[count_].hash;
    calls_count_ = outwards_[count_].calls;
    return true;
  }

  /// The innermost frame that changed among the `count` outermost; 0: none. A separate function, so that its state
  /// stays in registers: up to half the cost of an event is spent here.
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

  /// How many frames there are up to and including this one; 0: its position is unknown.
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

  /// Hashes a frame and its callers. Each step depends on the previous one, so the hash is a single multiplication:
  /// when an outer frame changes, all inner ones are rehashed here.
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

  /// Hashes the objects that the frames are calls of. Computed in every walk: a model's layers are called by the same
  /// frames one after the other. Each address is multiplied by its position's key and added, so that no step waits for
  /// another (multilinear hashing: Lemire and Kaser, "Strongly universal string hashing is fast", 2014). Objects are
  /// distinguished by address, not by type: reading each object in each walk would cost more than the rest of the walk,
  /// and an object of another type at the same address usually has another forward().
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

  /// Hashes a frame alone.
  static std::uint64_t hash_of(const Meaning& meaning) {
    if (meaning.key == stacks::FrameKey{} && !meaning.is_entry) return 0;
    // The top bit of a Python frame's key is always set, so it is free for another meaning.
    return chain_hash::mixed(std::rotl(meaning.key.bits, 1) ^ (meaning.is_entry ? 1U : 0U));
  }

  static std::uint64_t number_of(std::uint64_t hash) {
    return std::max<std::uint64_t>((hash ^ hash >> 32U) * chain_hash::other_odd >> 2U, 1);
  }

  static std::size_t slot_of(const void* frame) {
    return reinterpret_cast<std::uintptr_t>(frame) * chain_hash::odd >> (64 - std::countr_zero(2 * longest));
  }

  // What every walk needs comes first, in as few cache lines as possible: the program's own work has usually evicted
  // them.
  alignas(64) std::size_t count_;
  std::uint64_t hash_;  // of all frames without their objects; 0: none is shown
  std::uint64_t calls_count_;
  std::array<Call, longest> calls_;

  // The current chain, outermost first, from index 1.
  std::array<Seen, longest + 1> seen_;  // 0: the outermost frame's caller; null, unless the chain was cut
  std::array<Outwards, longest + 1> outwards_;

  std::array<Fresh, longest> fresh_;  // during a walk: the new frames, innermost first
  std::array<std::uint16_t, 2 * longest> places_;
};

}  // namespace memreel::python
