// Whole walks that a thread did lately: the next one from the same place compares, and need not walk.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "collector/stacks/frame_key.h"
#include "collector/stacks/stack_memory.h"
#include "collector/stacks/stretches.h"

namespace memreel::stacks {

/// Where a walk leads follows from the state that it begins in, the rules of the code, and the words of the stack that
/// it goes by: return addresses, and those saved frame pointers that a later frame is measured from. So it leads there
/// again when it begins in the same state and finds the same words in the same places. They are kept one behind the
/// other, and compared without a load that waits for another, which takes a third of the time that the same walk by
/// stretches takes; those are for what differs from walk to walk.
///
/// All zero bytes is its first state: it may lie in fresh memory from mmap, and need not be constructed. Used by one
/// thread at a time. 1.1 MiB, touched as it fills.
class RecentWalks {
 public:
  struct Found {
    std::size_t frames = 0;    // 0: the walk is not known
    std::uint64_t number = 0;  // no two different walks of a thread have the same, ever
  };

  /// Writes the frames of the walk that begins in this state, if it is known and the stack is as it was.
  Found find(const WalkState& begin, const StackMemory& memory, std::span<FrameKey> frames) const {
    for (const Walk& walk : sets_[index_of(begin)]) {
      if (walk.begin.rsp != begin.rsp || walk.begin.address != begin.address) continue;
      if (walk.goes_by_base && walk.begin.rbp != begin.rbp) continue;
      if (walk.is_cut ? walk.callers != frames.size() : walk.callers > frames.size()) continue;
      const std::span<const Read> reads = std::span(reads_).subspan(walk.first, walk.reads);
      // Callers are above one another, and no frame is measured from above the last of them.
      if (!memory.covers(begin.rsp, reads[walk.callers - 1].at + sizeof(std::uintptr_t) - begin.rsp)) continue;
      if (is_as_it_was(reads, walk.callers, frames.data())) return {walk.callers, walk.number};
    }
    return {};
  }

  /// Forgets all when `generation`, which the rules belong to, is not the one that they were made under.
  void belong_to(std::uint32_t generation) {
    if (generation_ == generation) return;
    generation_ = generation;
    clear();
  }

 private:
  friend class WalkInMaking;

  /// A word of the stack.
  struct Read {
    std::uintptr_t at, content;
  };

  struct Walk {
    WalkState begin;  // its address is 0: no walk
    std::uint64_t number;
    std::uint32_t first;           // of its reads: those of callers, innermost first, then others
    std::uint16_t callers, reads;  // how many
    bool goes_by_base;             // a frame was measured from the rbp that it began with
    bool is_cut;                   // there was no room for more frames
  };

  static std::size_t index_of(const WalkState& begin) {
    return (begin.rsp ^ std::rotl(begin.address, 32)) * 0x9E3779B97F4A7C15 >> (64 - index_bits);
  }

  /// Reads are looked at in rows: few branches, and yet soon done where another stack lies.
  static bool is_as_it_was(std::span<const Read> reads, std::size_t callers, FrameKey* frames) {
    constexpr std::size_t row = 8;
    std::uintptr_t difference = 0;
    std::size_t i = 0;
    for (; i + row <= callers && difference == 0; i += row) {
      for (std::size_t j = i; j < i + row; ++j) {
        difference |= StackMemory::covered(reads[j].at, 0) ^ reads[j].content;
        frames[j] = FrameKey::native(reads[j].content);
      }
    }
    if (difference != 0) return false;
    for (; i < callers; ++i) {
      difference |= StackMemory::covered(reads[i].at, 0) ^ reads[i].content;
      frames[i] = FrameKey::native(reads[i].content);
    }
    for (; i < reads.size(); ++i) difference |= StackMemory::covered(reads[i].at, 0) ^ reads[i].content;
    return difference == 0;
  }

  void clear() {
    sets_ = {};
    used_ = 0;
  }

  static constexpr unsigned index_bits = 9;

  std::array<std::array<Walk, 4>, 1U << index_bits> sets_;
  std::array<Read, 1U << 16U> reads_;
  std::uint64_t last_number_;
  std::uint32_t used_;  // of the reads
  std::uint32_t generation_;
};

/// Makes a known walk of one that is done step by step.
class WalkInMaking {
 public:
  WalkInMaking(RecentWalks& walks, const WalkState& begin) : walks_(walks), begin_(begin) {
    if (walks_.reads_.size() - walks_.used_ < longest) walks_.clear();
  }
  WalkInMaking(const WalkInMaking&) = delete;
  WalkInMaking& operator=(const WalkInMaking&) = delete;
  ~WalkInMaking() = default;

  /// The next step is measured from rbp.
  void go_by_base(std::uintptr_t rbp) {
    if (base_at_ == 0)
      goes_by_base_ = true;
    else if (others_ < most_others)
      other_.at(others_++) = {base_at_, rbp};
    else
      spoil();
  }

  /// A step to `caller`, which lay at `at`; its rbp was read at `base_at`, or left alone (0).
  void add(std::uintptr_t caller, std::uintptr_t at, std::uintptr_t base_at) {
    if (callers_ == longest - most_others) return spoil();
    walks_.reads_.at(walks_.used_ + callers_++) = {at, caller};
    if (base_at != 0) base_at_ = base_at;
  }

  /// So many steps, in which a stretch was followed from this state.
  void add(const Stretch& stretch, const WalkState& from, std::size_t count) {
    const auto at = [&](Stretch::Words words) { return from.rsp + words * sizeof from.rsp; };
    if (stretch.entry_base != Stretch::nowhere) go_by_base(from.rbp);
    for (std::size_t i = 0; i < count; ++i) {
      const Stretch::Words base_at = stretch.base_at.at(i);
      add(stretch.callers.at(i), at(stretch.caller_at.at(i)), base_at == Stretch::nowhere ? 0 : at(base_at));
      // What the last of them saved is measured from beyond them, if at all.
      if (i + 1 < count && (stretch.measured >> i & 1U) != 0) go_by_base(at(stretch.base.at(i)));
    }
  }

  /// There was a step that this can't say.
  void spoil() { spoilt_ = true; }

  /// The walk is at its end: there is no more caller, or no more room for one (`is_cut`). Returns its number; 0 when it
  /// can't be kept.
  std::uint64_t keep(bool is_cut) {
    if (spoilt_ || callers_ == 0) return 0;
    RecentWalks::Walk walk{.begin = begin_, .number = ++walks_.last_number_, .first = walks_.used_};
    walk.callers = static_cast<std::uint16_t>(callers_);
    walk.reads = static_cast<std::uint16_t>(callers_ + others_);
    walk.goes_by_base = goes_by_base_;
    walk.is_cut = is_cut;
    std::copy_n(other_.begin(), others_, walks_.reads_.begin() + walk.first + callers_);
    walks_.used_ += walk.reads;
    auto& set = walks_.sets_[RecentWalks::index_of(begin_)];
    std::copy_backward(set.begin(), set.end() - 1, set.end());
    set.front() = walk;
    return walk.number;
  }

 private:
  static constexpr std::size_t longest = 1100, most_others = 32;

  RecentWalks& walks_;
  WalkState begin_;
  std::array<RecentWalks::Read, most_others> other_;
  std::size_t callers_ = 0, others_ = 0;
  std::uintptr_t base_at_ = 0;  // where rbp was read; 0: it is still the one of the beginning
  bool goes_by_base_ = false, spoilt_ = false;
};

}  // namespace memreel::stacks
