// The rules of PyTorch's allocator by which a recorded history is judged.
//
// Source: c10/cuda/CUDACachingAllocator.cpp of PyTorch 2.11. These are the sizes only; where something is put, the
// history says itself.
#pragma once

#include <cstdint>
#include <limits>

#include "formats/import/torch/snapshot.h"
#include "formats/model/power2_divisions.h"
#include "formats/model/units.h"

namespace memreel::torch {

struct AllocatorRules {
  static constexpr Bytes block_size = 512_B;    // the least, and what sizes are multiples of
  static constexpr Bytes small_size = 1_MiB;    // requests up to this go to the small pool
  static constexpr Bytes small_buffer = 2_MiB;  // the size of all its segments, and of no segment of the large pool

  double garbage_collection_threshold = 0;  // 0: off
  Bytes max_split_size{std::numeric_limits<std::uint64_t>::max()};
  Bytes max_non_split_rounding = 20_MiB;
  Bytes large_buffer = 20_MiB;  // large_segment_size
  Power2Divisions divisions{};  // roundup_power2_divisions
  bool expandable = false;
  bool expands_private_pools = true;  // not up to 2.4
  bool ones_are_exact = false;        // of the divisions; they are up to 2.3

  /// From a snapshot's `allocator_settings`.
  static AllocatorRules of(const Snapshot& snapshot);

  static bool is_small(Bytes rounded) { return rounded <= small_size; }

  /// What the allocator makes of a request.
  Bytes rounded(Bytes request) const;
  Bytes segment_size(Bytes rounded) const;
  /// Whether a free block of `size` bytes, large enough, is handed out for a request.
  bool may_serve(Bytes size, Bytes rounded) const {
    return rounded < max_split_size ? size < max_split_size : size - rounded < max_non_split_rounding;
  }
  /// Whether `rest` bytes of the block that serves a request stay free.
  bool splits(Bytes rest, Bytes rounded) const {
    if (is_small(rounded) || expandable) return rest >= block_size;
    return rounded < max_split_size && rest > small_size;
  }
};

}  // namespace memreel::torch
