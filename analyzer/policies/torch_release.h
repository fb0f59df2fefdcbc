// The releases of PyTorch, as far as their allocators' rules differ.
//
// Shown by histories of each release, from its wheel above a made-up CUDA (tests/lab), and read in
// c10/cuda/CUDACachingAllocator.cpp and CUDAAllocatorConfig.cpp of each.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "formats/model/power2_divisions.h"

namespace memreel {

struct TorchRelease {
  /// Which of several free blocks of a size is taken. PR #178362 brought the second, PR #183591 the third.
  enum class TieBreak : std::uint8_t {
    address,          // the one at the lowest address: 2.1 to 2.11
    block_counter,    // the one that was made first, be it as a segment or cut off another block: 2.12
    segment_counter,  // the one of the segment that was got first, in it the lowest address: from 2.13 on
  };

  unsigned minor = 11;  // 2.11; from 1 on

  /// Of a text such as "2.12", "2.13.0+cu130", "2.14 or newer", or "2.3 or 2.4", of which the second counts; nothing
  /// when it names none from 2.1 on.
  static std::optional<TorchRelease> parse(std::string_view text);

  TieBreak tie_break() const {
    if (minor < 12) return TieBreak::address;
    return minor == 12 ? TieBreak::block_counter : TieBreak::segment_counter;
  }
  /// Whether expandable_segments is for private pools too. Up to 2.4 they took segments: their checkpoints could not
  /// restore ranges.
  bool expands_private_pools() const { return minor >= 5; }
  /// Whether a 1 in roundup_power2_divisions leaves requests above 512 B as they are; from 2.4 on it stands for no
  /// divisions.
  bool ones_are_exact() const { return minor < 4; }
  RestOfList rest_of_list() const { return minor < 9 ? RestOfList::from_last : RestOfList::above_last; }

  /// The releases by whose rules histories are the same: "2.5 to 2.11". What ">" in a list is for makes no difference
  /// here: a snapshot holds the table that the list gave.
  std::string_view rules() const;

  friend bool operator==(const TorchRelease&, const TorchRelease&) = default;
};

}  // namespace memreel
