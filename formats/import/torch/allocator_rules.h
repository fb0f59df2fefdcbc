// The rules of PyTorch's allocator that are used to interpret a recorded history.
//
// Source: c10/cuda/CUDACachingAllocator.cpp of PyTorch 2.11. Sizes only; placement is in the history itself.
#pragma once

#include <cstdint>
#include <limits>

#include "formats/import/torch/snapshot.h"
#include "formats/model/power2_divisions.h"
#include "formats/model/units.h"

namespace memreel::torch {

struct AllocatorRules {
  static constexpr Bytes block_size = 512_B;    // the minimum, and the unit of sizes
  static constexpr Bytes small_size = 1_MiB;    // requests up to this go to the small pool
  static constexpr Bytes small_buffer = 2_MiB;  // the size of all its segments, and of none in the large pool

  double garbage_collection_threshold = 0;  // 0: off
  Bytes max_split_size{std::numeric_limits<std::uint64_t>::max()};
  Bytes max_non_split_rounding = 20_MiB;
  Bytes large_buffer = 20_MiB;  // large_segment_size
  Power2Divisions divisions{};  // roundup_power2_divisions
  bool expandable = false;
  bool expands_private_pools = true;  // no up to 2.4
  bool ones_are_exact = false;        // divisions of 1: sizes are exact up to 2.3

  /// From a snapshot's `allocator_settings`.
  static AllocatorRules of(const Snapshot& snapshot);

  static bool is_small(Bytes rounded) { return rounded <= small_size; }

  /// The allocated size for a request.
  Bytes rounded(Bytes request) const;
  Bytes segment_size(Bytes rounded) const;
  /// Whether a free block of `size` bytes, if large enough, may serve a request.
  bool may_serve(Bytes size, Bytes rounded) const {
    return rounded < max_split_size ? size < max_split_size : size - rounded < max_non_split_rounding;
  }
  /// Whether the remainder of `rest` bytes is split off when a block serves a request.
  bool splits(Bytes rest, Bytes rounded) const {
    if (is_small(rounded) || expandable) return rest >= block_size;
    return rounded < max_split_size && rest > small_size;
  }
};

}  // namespace memreel::torch
