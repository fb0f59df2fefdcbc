// PyTorch releases, distinguished by their allocators' rules.
//
// Confirmed by histories of each release, recorded with its wheel on a fake CUDA (tests/lab), and read in
// c10/cuda/CUDACachingAllocator.cpp and CUDAAllocatorConfig.cpp of each.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "formats/model/power2_divisions.h"

namespace memreel {

struct TorchRelease {
  /// Which of several free blocks of equal size is taken. PR #178362 introduced the second rule, PR #183591 the third.
  enum class TieBreak : std::uint8_t {
    address,          // the one at the lowest address: 2.1 to 2.11
    block_counter,    // the one created first, as a segment or cut off another block: 2.12
    segment_counter,  // the one in the oldest segment, in it the lowest address: from 2.13 on
  };

  unsigned minor = 11;  // 2.11; at least 1

  /// Parses text such as "2.12", "2.13.0+cu130", "2.14 or newer", or "2.3 or 2.4", where the second counts; nothing if
  /// it names no release from 2.1 on.
  static std::optional<TorchRelease> parse(std::string_view text);

  TieBreak tie_break() const {
    if (minor < 12) return TieBreak::address;
    return minor == 12 ? TieBreak::block_counter : TieBreak::segment_counter;
  }
  /// Whether expandable_segments applies to private pools too. Up to 2.4 these took segments: their checkpoints could
  /// not restore ranges.
  bool expands_private_pools() const { return minor >= 5; }
  /// Whether a 1 in roundup_power2_divisions leaves requests above 512 B unrounded; from 2.4 on it means no divisions.
  bool ones_are_exact() const { return minor < 4; }
  RestOfList rest_of_list() const { return minor < 9 ? RestOfList::from_last : RestOfList::above_last; }

  /// The releases whose rules give the same histories: "2.5 to 2.11". The meaning of ">" in a list makes no difference
  /// here: a snapshot holds the resulting table.
  std::string_view rules() const;

  friend bool operator==(const TorchRelease&, const TorchRelease&) = default;
};

}  // namespace memreel
