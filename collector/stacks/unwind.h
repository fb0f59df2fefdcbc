// SPDX-License-Identifier: Apache-2.0
// The native stack of the calling thread.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "collector/stacks/call_frames.h"
#include "collector/stacks/module_table.h"
#include "collector/stacks/recent_walks.h"
#include "collector/stacks/stack_memory.h"
#include "collector/stacks/stack_tree.h"

namespace memreel::stacks {

// How to get from a frame to its caller, in one number: a digest of call frame information.

// DWARF expressions in call frame information.

/// Register values of one frame; lost ones are unknown.
class Registers {
 public:
  std::optional<std::uintptr_t> operator[](std::uint64_t reg) const {
    if (reg >= register_count || (known_ >> reg & 1U) == 0) return std::nullopt;
    return values_.at(reg);
  }
  void set(std::uint64_t reg, std::uintptr_t value) {
    values_.at(reg) = value;
    known_ |= 1U << reg;
  }

 private:
  std::array<std::uintptr_t, register_count> values_{};
  std::uint32_t known_ = 0;
};

/// The value of an expression, with `initial` on its stack if given. None if it uses an unknown register, memory off
/// the stack, or an operation that call frame information never needs.
std::optional<std::uintptr_t> evaluate(std::span<const std::byte> expression, const Registers& registers,
                                       StackMemory& memory, std::optional<std::uintptr_t> initial = std::nullopt);

/// The return address is at CFA - 8 in every kind that has a CFA: a call put it there.
class UnwindRule {
 public:
  enum class Kind : std::uint8_t {
    none,           // not looked up yet
    stack_pointer,  // CFA = rsp + offset
    frame_pointer,  // CFA = rbp + offset
    realigned,  // CFA = the word at rbp - offset, rbp's own at rbp: the function realigned its stack to more than 16
    signal,     // a signal handler returns to the interrupted code
    outermost,  // there is no caller
    unknown,    // no table covers the code
    full,       // needs other registers, or expressions
  };

  constexpr UnwindRule() = default;
  constexpr explicit UnwindRule(Kind kind) : bits_(static_cast<std::uint32_t>(kind)) {}

  /// The rule for a row if it fits; else `full`. `address`: the instruction's.
  static UnwindRule of(const FrameRow& row, std::uintptr_t address);

  constexpr Kind kind() const { return static_cast<Kind>(bits_ & 7U); }
  /// Offset of the CFA, in bytes: a multiple of 8 below 256 KiB.
  constexpr std::uintptr_t offset() const { return bits_ & 0x3'FFF8U; }
  /// The caller's rbp is saved at CFA minus this; 0: rbp is still the caller's. A multiple of 8 below 32 KiB.
  constexpr std::uintptr_t frame_pointer_below() const { return bits_ >> 15U & 0x7FF8U; }

  static constexpr unsigned bit_count = 30;
  constexpr std::uint32_t bits() const { return bits_; }
  static constexpr UnwindRule from_bits(std::uint32_t bits) {
    UnwindRule rule;
    rule.bits_ = bits;
    return rule;
  }

  friend constexpr bool operator==(UnwindRule, UnwindRule) = default;

 private:
  static std::optional<UnwindRule> packed(Kind kind, std::int64_t offset, std::int64_t frame_pointer_below);

  std::uint32_t bits_ = 0;
};

/// Rules by return address, for all threads, lock-free: one word each; newer ones replace older ones.
class RuleCache {
 public:
  UnwindRule find(std::uintptr_t address) const {
    const Slot slot = slot_of(address);
    for (const std::atomic<std::uint64_t>& kept : sets_[slot.index]) {
      const std::uint64_t word = kept.load(std::memory_order_relaxed);
      if (word >> UnwindRule::bit_count == slot.tag)
        return UnwindRule::from_bits(static_cast<std::uint32_t>(word & ((1U << UnwindRule::bit_count) - 1)));
    }
    return {};
  }

  void put(std::uintptr_t address, UnwindRule rule) {
    if (address >> address_bits != 0) return;
    const Slot slot = slot_of(address);
    auto& [newest, older] = sets_[slot.index];
    const std::uint64_t replaced = newest.load(std::memory_order_relaxed);
    if (replaced >> UnwindRule::bit_count != slot.tag) older.store(replaced, std::memory_order_relaxed);
    newest.store(slot.tag << UnwindRule::bit_count | rule.bits(), std::memory_order_relaxed);
  }

  void clear() {
    for (auto& set : sets_)
      for (std::atomic<std::uint64_t>& word : set) word.store(0, std::memory_order_relaxed);
  }

 private:
  static constexpr unsigned address_bits = 47;  // of user space; five-level page tables extend it only on request
  static constexpr unsigned index_bits = 14;

  struct Slot {
    std::size_t index;
    std::uint64_t tag;
  };
  /// Multiplying by an odd number permutes the addresses: index and tag together are the whole address, so an entry
  /// can't be mistaken for another address's. Addresses beyond `address_bits` never match: their tag is too large.
  static Slot slot_of(std::uintptr_t address) {
    constexpr std::uint64_t mask = (std::uint64_t{1} << address_bits) - 1;
    const std::uint64_t mixed = (address * 0x9E3779B97F4A7C15) & mask;
    const std::uint64_t excess = address >> address_bits << (address_bits - index_bits);
    return {mixed >> (address_bits - index_bits), (mixed & (mask >> index_bits)) | excess};
  }

  // Two-way sets: of the fifty addresses in a hot loop's stacks, two share an index in one process out of fourteen
  // (addresses are random), and with one-way sets would be looked up again at every event. Three share one in 15,000.
  std::array<std::array<std::atomic<std::uint64_t>, 2>, 1U << index_bits> sets_{};
};

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
