// SPDX-License-Identifier: Apache-2.0
// A thread's recent whole walks: the next one from the same place compares instead of walking.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "collector/stacks/stack_memory.h"
#include "collector/stacks/stack_tree.h"

namespace memreel::stacks {

// Parts of a stack that a thread walked before: the next walk takes each in one step.

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

// A thread's recent stacks.

/// Maps the words of a stack (see unwind.h) to its key, so that a repeated stack costs one hash and one comparison,
/// however its frames were found. All-zero bytes are the initial state: it may live in fresh mmap memory without being
/// constructed. Used by one thread at a time, with one tree. 1.4 MiB, touched as it fills.
class RecentStacks {
 public:
  class Bucket {
    friend class RecentStacks;
    std::uint64_t hash_ = 0;
  };

  /// Where a stack is stored, if it is.
  static Bucket bucket_of(std::span<const std::uint64_t> words) {
    Bucket bucket;
    bucket.hash_ = hash_of(words);
    return bucket;
  }

  /// The key stored for the same words, or none.
  StackKey find(Bucket bucket, std::span<const std::uint64_t> words) const {
    const Entry& entry = entries_[bucket.hash_ % entries_.size()];
    if (entry.hash != bucket.hash_) return StackKey::none;
    return std::ranges::equal(words, std::span(words_).subspan(entry.begin, entry.size)) ? entry.key : StackKey::none;
  }

  /// Replaces another entry if needed. Starts over when the word storage is full.
  void put(Bucket bucket, std::span<const std::uint64_t> words, StackKey key) {
    if (words.size() > words_.size()) return;
    if (words.size() > words_.size() - used_) {
      entries_.fill({});
      used_ = 0;
    }
    std::copy(words.begin(), words.end(), words_.begin() + used_);
    entries_[bucket.hash_ % entries_.size()] = {bucket.hash_, used_, static_cast<std::uint32_t>(words.size()), key};
    used_ += static_cast<std::uint32_t>(words.size());
  }

 private:
  struct Entry {
    std::uint64_t hash;
    std::uint32_t begin, size;  // of its words in `words_`
    StackKey key;
  };

  /// Two interleaved chains: a multiplication takes several cycles, and the next one would wait for it.
  static std::uint64_t hash_of(std::span<const std::uint64_t> words) {
    constexpr std::uint64_t odd = 0x9E3779B97F4A7C15, other_odd = 0xD6E8FEB86659FD93;
    std::uint64_t a = words.size(), b = odd;
    std::size_t i = 0;
    for (; i + 1 < words.size(); i += 2) {
      a = (std::rotl(a, 27) ^ words[i]) * odd;
      b = (std::rotl(b, 29) ^ words[i + 1]) * other_odd;
    }
    if (i < words.size()) a = (std::rotl(a, 27) ^ words[i]) * odd;
    // Multiplication only carries bits upwards; folding mixes the upper half into the lower.
    const std::uint64_t mixed = (a ^ a >> 32U) * odd + std::rotl(b, 32) * odd;
    return mixed ^ mixed >> 32U;
  }

  std::array<Entry, 1U << 14U> entries_;  // a large model's step has a few thousand
  std::array<std::uint64_t, 1U << 17U> words_;
  std::uint32_t used_;  // of the words
};

// A thread's recent stacks, by their Python frames.

/// Maps the number of the Python frames (python/frame_chain.h) and that of the native walk
/// (RecentWalks::Walk::number()) to stack keys. A program's lines and modules change from event to event, while its
/// native walks repeat; so entries are indexed by the former, one cache line each, which can be prefetched while the
/// native frames are still being walked.
///
/// All-zero bytes are the initial state: it may live in fresh mmap memory without being constructed. Used by one thread
/// at a time. 256 KiB, touched as it fills.
class ChainStacks {
 public:
  /// Prefetches the entry for these frames.
  void expect(std::uint64_t chain) const { __builtin_prefetch(&line_of(chain)); }

  /// The stack stored for both numbers, or none.
  StackKey find(std::uint64_t chain, std::uint64_t walk) const {
    const Line& line = line_of(chain);
    std::uint32_t found = 0;
    // Branchless: the match changes from event to event.
    for (std::size_t i = 0; i < line.walks.size(); ++i)
      found |= (0U - std::uint32_t{line.walks[i] == walk}) & static_cast<std::uint32_t>(line.keys[i]);
    return line.chain == chain ? StackKey{found} : StackKey::none;
  }

  /// Replaces the oldest entry of the same Python frames, or all entries there of other frames. `walk` is not 0.
  void put(std::uint64_t chain, std::uint64_t walk, StackKey key) {
    Line& line = lines_[index_of(chain)];
    if (line.chain != chain) line = {.chain = chain};
    const std::size_t place = line.next++ % line.walks.size();
    line.walks[place] = walk;
    line.keys[place] = key;
  }

 private:
  struct alignas(64) Line {
    std::uint64_t chain;
    std::array<std::uint64_t, 4> walks;
    std::array<StackKey, 4> keys;
    std::uint32_t next;
  };
  static_assert(sizeof(Line) == 64);

  static std::size_t index_of(std::uint64_t chain) { return chain * 0x9E3779B97F4A7C15 >> (64U - index_bits); }
  const Line& line_of(std::uint64_t chain) const { return lines_[index_of(chain)]; }

  static constexpr unsigned index_bits = 12;  // a large model's step has a few thousand chains

  std::array<Line, std::size_t{1} << index_bits> lines_;
};

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
