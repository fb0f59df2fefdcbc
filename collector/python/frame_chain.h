// The Python frames of a thread, and what its next walk need not find out again.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "collector/stacks/frame_key.h"
#include "collector/stacks/merge.h"

namespace memreel::python {

/// All zero bytes is its first state: it may lie in fresh memory from mmap, and need not be constructed. Used by one
/// thread at a time. 360 KiB, touched as it fills.
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

  struct Link {
    // As they lie in the frame, so that they can be compared.
    const void* frame;
    const void* caller;
    const void* code;
    std::uintptr_t instruction;
    std::uint32_t version;  // of the code; 0: it says nothing, and the link has to be read again
    std::uint8_t owner;
    Meaning meaning;
    std::uint64_t number;  // of the chain from here on outwards
  };

  /// Brings the chain up to date, beginning at the frame at `innermost`; null: there are none. `reader` reads frames:
  /// `void read(const void* frame, Link&)` all but the number, in place; and `bool is_unchanged(const Link&)` whether
  /// reading the frame again would give the same.
  ///
  /// Returns a number for the frames that are shown. Equal numbers of one FrameChain are equal frames; frames that come
  /// again after many others may have another number than before. 0: none.
  template <class Reader>
  std::uint64_t follow(const void* innermost, Reader& reader) {
    if (!update(innermost, reader)) {
      count_ = 0;
      update(innermost, reader);
    }
    return count_ == 0 ? 0 : links_[count_ - 1].number;
  }

  /// Writes the frames that follow() found, innermost first, as many as fit; returns how many.
  std::size_t frames(std::span<stacks::PythonFrame> frames) const;

 private:
  /// False when what is kept does not lead to what is to be found; it may be half changed then.
  template <class Reader>
  bool update(const void* frame, Reader& reader) {
    std::size_t fresh = 0, kept = 0;
    for (; frame != nullptr && fresh < longest; frame = fresh_[fresh++].caller) {
      kept = place_of(frame);
      if (kept != 0) break;
      reader.read(frame, fresh_[fresh]);
    }
    // Which frames a chain is cut after must not depend on the chain before.
    const bool is_cut = kept != 0 && links_[0].caller != nullptr;
    if (kept + fresh > longest || (is_cut && kept + fresh != longest)) return false;

    std::size_t changed = kept;
    for (std::size_t i = kept; i-- > 0;) {
      Link& link = links_[i];
      if (reader.is_unchanged(link)) continue;
      const void* const caller = link.caller;
      const Meaning meaning = link.meaning;
      reader.read(link.frame, link);
      if (link.caller != caller) return false;
      if (link.meaning != meaning) changed = i;
    }
    count_ = kept;
    while (fresh > 0) add(fresh_[--fresh]);
    for (std::size_t i = changed; i < count_; ++i)
      links_[i].number = number_of(links_[i].meaning, i == 0 ? 0 : links_[i - 1].number);
    return true;
  }

  /// How many links there are up to the one of this frame; 0: it is not known where it is.
  std::size_t place_of(const void* frame) const {
    const std::size_t place = places_[slot_of(frame)];
    return place != 0 && place <= count_ && links_[place - 1].frame == frame ? place : 0;
  }
  void add(const Link& link) {
    links_[count_++] = link;
    places_[slot_of(link.frame)] = static_cast<std::uint16_t>(count_);
  }
  std::uint64_t number_of(Meaning meaning, std::uint64_t callers);

  static constexpr std::uint64_t odd = 0x9E3779B97F4A7C15;  // 2^64 / golden ratio

  static std::size_t slot_of(const void* frame) {
    return reinterpret_cast<std::uintptr_t>(frame) * odd >> (64 - std::countr_zero(2 * longest));
  }

  struct Numbered {
    std::uint64_t callers, frame, number;
  };

  std::array<Link, longest> links_;  // outermost first
  std::array<Link, longest> fresh_;  // in a walk: those that are new, innermost first
  std::array<std::uint16_t, 2 * longest> places_;
  std::array<Numbered, 2 * longest> numbered_;
  std::size_t count_;
  std::uint64_t last_number_;
};

}  // namespace memreel::python
