// A thread's recent whole walks: the next one from the same place compares instead of walking.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "collector/stacks/frame_key.h"
#include "collector/stacks/stack_memory.h"
#include "collector/stacks/stack_tree.h"
#include "collector/stacks/stretches.h"

namespace memreel::stacks {

/// A walk's result follows from its initial state, the unwind rules of the code, and the stack words it reads: return
/// addresses, and those saved frame pointers that a later frame's CFA depends on. So it repeats if it starts in the
/// same state and finds the same words in the same places. The words are stored contiguously and compared without
/// dependent loads, which takes a third of the time of the same walk by stretches; stretches are for what differs from
/// walk to walk.
///
/// All-zero bytes are the initial state: it may live in fresh mmap memory without being constructed. Used by one thread
/// at a time. 768 KiB, touched as it fills.
class RecentWalks {
 public:
  class alignas(64) Walk {  // one cache line
   public:
    std::size_t frames() const { return callers_; }
    /// Unique among the walks of a thread, forever.
    std::uint64_t number() const { return number_; }

    /// The stack made of this walk and no other frames, if known; else none.
    StackKey stack() const { return stack_; }
    void set_stack(StackKey stack) { stack_ = stack; }

   private:
    friend class RecentWalks;
    friend class WalkInMaking;

    WalkState begin_;  // address 0: no walk
    std::uint64_t number_;
    StackKey stack_;
    std::uint32_t first_;            // of its reads: callers, innermost first, then others
    std::uint16_t callers_, reads_;  // how many
    std::uint16_t highest_;  // position of the last caller, as in above_, but without a load that depends on first_
    bool goes_by_base_;      // a frame was measured from the initial rbp
    bool is_cut_;            // there was no room for more frames
  };

  /// The walk that starts in this state and finds at most `most` frames; null if unknown, or if the stack has changed.
  /// Valid until the next one is made.
  Walk* find(const WalkState& begin, const StackMemory& memory, std::size_t most) {
    for (Walk& walk : sets_[index_of(begin)]) {
      if (walk.begin_.rsp != begin.rsp || walk.begin_.address != begin.address) continue;
      if (walk.goes_by_base_ && walk.begin_.rbp != begin.rbp) continue;
      if (walk.is_cut_ ? walk.callers_ != most : walk.callers_ > most) continue;
      // Callers lie in ascending order, and no frame is measured from above the last of them.
      const std::size_t words = walk.highest_ + std::size_t{1};
      if (memory.covers(begin.rsp, words * sizeof begin.rsp) && is_as_it_was(walk)) return &walk;
    }
    return nullptr;
  }

  /// Writes the frames of a walk that find() returned.
  void write_frames(const Walk& walk, FrameKey* frames) const {
    for (std::size_t i = 0; i < walk.callers_; ++i) frames[i] = FrameKey::native(contents_[walk.first_ + i]);
  }

  /// Call when the rules behind the walks are forgotten.
  void forget() {
    sets_ = {};
    used_ = 0;
  }

 private:
  friend class WalkInMaking;

  static std::size_t index_of(const WalkState& begin) {
    return (begin.rsp ^ std::rotl(begin.address, 32)) * 0x9E3779B97F4A7C15 >> (64 - index_bits);
  }

  /// Compares in rows: few branches, yet a different stack is detected early.
  bool is_as_it_was(const Walk& walk) const {
    constexpr std::size_t row = 8;
    const std::uintptr_t* const contents = &contents_[walk.first_];
    const std::uint16_t* const above = &above_[walk.first_];
    std::uintptr_t difference = 0;
    std::size_t i = 0;
    for (; i + row <= walk.reads_ && difference == 0; i += row)
      for (std::size_t j = i; j < i + row; ++j)
        difference |= StackMemory::covered(walk.begin_.rsp, above[j]) ^ contents[j];
    if (difference != 0) return false;
    for (; i < walk.reads_; ++i) difference |= StackMemory::covered(walk.begin_.rsp, above[i]) ^ contents[i];
    return difference == 0;
  }

  static constexpr unsigned index_bits = 9;

  std::array<std::array<Walk, 4>, 1U << index_bits> sets_;
  // The words read from the stack, and their distances from the stack pointer in words.
  std::array<std::uintptr_t, 1U << 16U> contents_;
  std::array<std::uint16_t, 1U << 16U> above_;
  std::uint64_t last_number_;
  std::uint32_t used_;  // of the reads
};

/// Records a walk as it is done step by step.
class WalkInMaking {
 public:
  WalkInMaking(RecentWalks& walks, const WalkState& begin) : walks_(walks), begin_(begin) {
    if (walks_.contents_.size() - walks_.used_ < longest) walks_.forget();
  }
  WalkInMaking(const WalkInMaking&) = delete;
  WalkInMaking& operator=(const WalkInMaking&) = delete;
  ~WalkInMaking() = default;

  /// The next step is measured from rbp.
  void go_by_base(std::uintptr_t rbp) {
    if (base_at_ == 0)
      goes_by_base_ = true;
    else
      go_by({base_at_, rbp});
  }

  /// A step to `caller`, whose return address was at `at`; its rbp was read at `base_at`, or unchanged (0).
  void add(std::uintptr_t caller, std::uintptr_t at, std::uintptr_t base_at) {
    if (callers_ == longest - most_others) return spoil();
    put(callers_++, {at, caller});
    if (base_at != 0) base_at_ = base_at;
  }

  /// A step from a frame that realigned its stack: measured from rbp, where its own was saved, and from `cfa`, which
  /// was at `cfa_at`.
  void add_realigned(std::uintptr_t caller, std::uintptr_t cfa, std::uintptr_t cfa_at, std::uintptr_t rbp) {
    go_by_base(rbp);
    go_by({cfa_at, cfa});
    add(caller, cfa - sizeof cfa, rbp);
  }

  /// `count` steps that followed a stretch from this state.
  void add(const Stretch& stretch, const WalkState& from, std::size_t count) {
    const auto at = [&](Stretch::Words words) { return from.rsp + words * sizeof from.rsp; };
    if (stretch.entry_base != Stretch::nowhere) go_by_base(from.rbp);
    for (std::size_t i = 0; i < count; ++i) {
      const Stretch::Words base_at = stretch.base_at.at(i);
      add(stretch.callers.at(i), at(stretch.caller_at.at(i)), base_at == Stretch::nowhere ? 0 : at(base_at));
      // What the last of them saved is measured from after them, if at all.
      if (i + 1 < count && (stretch.measured >> i & 1U) != 0) go_by_base(at(stretch.base.at(i)));
    }
  }

  /// There was a step that this can't represent.
  void spoil() { spoilt_ = true; }

  /// The walk has ended: there is no more caller, or no more room for one (`is_cut`). Returns its number; 0 if it can't
  /// be stored.
  std::uint64_t keep(bool is_cut) {
    for (std::size_t i = 0; i < others_; ++i) put(callers_ + i, other_.at(i));
    if (spoilt_ || callers_ == 0) return 0;
    RecentWalks::Walk walk{};
    walk.begin_ = begin_;
    walk.number_ = ++walks_.last_number_;
    walk.first_ = walks_.used_;
    walk.callers_ = static_cast<std::uint16_t>(callers_);
    walk.reads_ = static_cast<std::uint16_t>(callers_ + others_);
    walk.highest_ = walks_.above_.at(walks_.used_ + callers_ - 1);
    walk.goes_by_base_ = goes_by_base_;
    walk.is_cut_ = is_cut;
    walks_.used_ += walk.reads_;
    auto& set = walks_.sets_[RecentWalks::index_of(begin_)];
    std::copy_backward(set.begin(), set.end() - 1, set.end());
    set.front() = walk;
    return walk.number_;
  }

 private:
  static constexpr std::size_t longest = 1100, most_others = 32;

  /// A word of the stack.
  struct Read {
    std::uintptr_t at, content;
  };

  void go_by(Read read) {
    if (others_ == most_others) return spoil();
    other_.at(others_++) = read;
  }

  void put(std::size_t i, Read read) {
    const std::uintptr_t distance = read.at - begin_.rsp, words = distance / sizeof distance;
    if (distance % sizeof distance != 0 || words > UINT16_MAX) return spoil();
    walks_.contents_.at(walks_.used_ + i) = read.content;
    walks_.above_.at(walks_.used_ + i) = static_cast<std::uint16_t>(words);
  }

  RecentWalks& walks_;
  WalkState begin_;
  std::array<Read, most_others> other_;
  std::size_t callers_ = 0, others_ = 0;
  std::uintptr_t base_at_ = 0;  // where rbp was read; 0: it still has its initial value
  bool goes_by_base_ = false, spoilt_ = false;
};

}  // namespace memreel::stacks
