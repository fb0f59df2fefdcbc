// Settings of PyTorch's CUDA caching allocator, and the sizes that follow from them.
//
// Source: c10/cuda/CUDACachingAllocator.cpp, c10/core/AllocatorConfig.h and c10/cuda/CUDAAllocatorConfig.cpp as of
// PyTorch 2.11; which values are accepted, and which table a list of divisions gives, was tested.
// max_non_split_rounding came with PR #136174, large_segment_size with PR #172056; earlier releases use the values that
// are the defaults here. If only the second is set, the first takes the same value: confirmed by histories recorded
// with 32, 40 and 128 MiB. torch_release.h has the differences between releases.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "analyzer/engine/policy_spec.h"
#include "analyzer/policies/torch_release.h"
#include "analyzer/policies/torch_reserve.h"
#include "formats/model/power2_divisions.h"
#include "formats/model/result.h"
#include "formats/model/units.h"

namespace memreel {

struct TorchSettings {
  static constexpr std::string_view release_key = "release";
  /// The key that the import of a snapshot adds to `allocator_settings` if the snapshot reveals its release: "2.12".
  static constexpr std::string_view recorded_release_key = "pytorch_release";

  static constexpr Bytes min_block = 512_B;  // every size is a multiple of it
  static constexpr unsigned min_block_log2 = 9;
  static constexpr Bytes max_small = 1_MiB;         // the largest rounded size served by the small pools
  static constexpr Bytes small_segment = 2_MiB;     // of the small pools
  static constexpr Bytes min_own_segment = 10_MiB;  // requests of at least this size get a segment of their own size
  static constexpr Bytes own_segment_rounding = 2_MiB;
  static constexpr Bytes unlimited{std::numeric_limits<std::uint64_t>::max()};

  Bytes max_split_size = unlimited;         // blocks of at least this size are never split
  Bytes max_non_split_rounding = 20_MiB;    // how much larger such a block may be than the request it serves
  Bytes large_segment = 20_MiB;             // for requests above max_small and below min_own_segment
  double garbage_collection_threshold = 0;  // share of the capacity; 0: off
  Power2Divisions divisions{};              // roundup_power2_divisions
  bool expandable = false;                  // expandable_segments
  double memory_fraction = 1;               // per_process_memory_fraction: share of the device's memory; 1: no limit
  TorchReserve reserve;                     // address range sizes of expandable segments
  // Proposed to PyTorch; not in any release yet.
  bool search_after_release = false;         // PR #191302: search again after waiting, before failing
  bool expandable_ignores_oversize = false;  // PR #193400: max_split_size does not apply to expandable segments
  TorchRelease release;                      // selects the rules

  /// Whether a parameter of spec() is not a key of PyTorch's.
  static bool is_own_key(std::string_view key);

  /// Parses the parameters of a spec. Errors: a value that PyTorch would not accept.
  static Result<TorchSettings> parse(const PolicySpec& spec);
  /// Reads the `allocator_settings` of a snapshot: missing or malformed entries keep their defaults. What PyTorch does
  /// not list there is taken from the text of PYTORCH_CUDA_ALLOC_CONF, which it does list; a memreel recording has only
  /// that text.
  static TorchSettings recorded(const std::map<std::string, std::string>& settings);
  /// The memory fraction set in the text of PYTORCH_CUDA_ALLOC_CONF, which recorded() leaves out: a replay at the
  /// capacity implied by a history is already within that limit. 1: none.
  static double recorded_fraction(const std::map<std::string, std::string>& settings);
  /// The spec of torch.native, with every parameter given, that parse() turns into these settings.
  PolicySpec spec() const;

  /// The size that the allocator looks for when `requested` bytes are requested.
  Bytes round(Bytes requested) const {
    return round_request(std::max(requested, 1_B), divisions, min_block, release.ones_are_exact());
  }

  /// The same without divisions.
  static Bytes round_to_block(Bytes requested) { return round_up(std::max(requested, 1_B), min_block); }

  /// Whether round() differs from round_to_block().
  bool divides() const {
    return leaves_exact() || std::ranges::any_of(divisions, [](std::uint32_t n) { return n > 1; });
  }
  /// Whether sizes need not be multiples of a block.
  bool leaves_exact() const { return release.ones_are_exact() && std::ranges::count(divisions, 1U) > 0; }

  static bool is_small(Bytes rounded) { return rounded <= max_small; }

  /// The size of the segment taken from the device if no free block serves `rounded`.
  Bytes segment_size(Bytes rounded) const {
    if (is_small(rounded)) return small_segment;
    if (rounded < min_own_segment) return large_segment;
    return round_up(rounded, own_segment_rounding);
  }

  /// The unit in which memory is mapped in an expandable segment.
  Bytes run_size(bool small) const { return small ? small_segment : large_segment; }

  /// If garbage was collected while `reserved` bytes were held, the capacity was below this; 0 if collection is off.
  Bytes collected_below(Bytes reserved) const;
};

}  // namespace memreel
