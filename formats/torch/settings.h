// SPDX-License-Identifier: Apache-2.0
// Settings of PyTorch's CUDA caching allocator, and the rules about sizes that follow from them: what a request is
// rounded to, which free block may serve it, whether the rest is split off, and the segment taken if none does.
//
// Source: c10/cuda/CUDACachingAllocator.cpp of PyTorch 2.1 to 2.15 (round_size, get_allocation_size, get_free_block,
// should_split). release.h has what differs between releases, alloc_conf.h how users write the settings.
// max_non_split_rounding came with PR #136174, large_segment_size with PR #172056; earlier releases use the values that
// are the defaults here. If only the second is set, the first takes the same value: confirmed by histories recorded
// with 32, 40 and 128 MiB.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <map>

#include "formats/model/result.h"
#include "formats/model/units.h"
#include "formats/torch/release.h"

namespace memreel {

// PyTorch's roundup_power2_divisions: the number of steps between consecutive powers of two.
//
// Source: roundup_power2_next_division() in c10/cuda/CUDACachingAllocator.cpp and parseRoundUpPower2Divisions() in
// c10/cuda/CUDAAllocatorConfig.cpp of PyTorch 2.1 to 2.9, c10/core/AllocatorConfig.cpp of 2.10 to 2.15.

/// For sizes from 1 MiB, 2 MiB ... 32 GiB; the first also for smaller ones. 0: off, 1: none. Powers of two.
using Power2Divisions = std::array<std::uint32_t, 16>;

/// "4" for all sizes, or "[256:1,512:2,>:8]": keys are MiB, powers of two, applied in order. The first one also covers
/// all smaller sizes, ">" those above the last one listed (torch_rule::rest_includes_last).
std::optional<Power2Divisions> parse_power2_divisions(std::string_view text, TorchRelease release);

/// The shortest text that parse_power2_divisions() turns into this.
std::string power2_divisions_text(const Power2Divisions& divisions, TorchRelease release);

/// The index of the division for a size: 1 MiB and less, 2 MiB ... 32 GiB and more.
constexpr std::size_t power2_division_of(Bytes size) {
  const auto width = static_cast<unsigned>(std::bit_width(size.count));
  return width <= 20 ? 0 : std::min(width - 21, 15U);
}

/// Rounds up to the next of `divisions` equal steps between two powers of two.
inline Bytes round_to_division(Bytes size, std::uint32_t divisions) {
  const std::uint64_t floor = std::bit_floor(size.count);
  const std::uint64_t step = floor >> static_cast<unsigned>(std::countr_zero(divisions));
  return step == 0 ? Bytes{floor * 2} : round_up(size, Bytes{step});
}

// The address range size of expandable segments: expandable_segments_reserve and its classes.
//
// Source: ExpandableSegmentReserveSpec and clamp_reserve_bytes() in c10/cuda/CUDAAllocatorConfig.h of PyTorch 2.15 (PR
// #192269). Tested with the wheel of 2.15: ranges are rounded up to whole runs, and a request larger than a range fails
// as if the device had refused it.

/// "0.5" of the device's memory, or "40G" in GiB.
struct ReserveSize {
  bool is_share = true;
  double value = 0;

  /// None if it is neither, or not above 0, which PyTorch ignores with a warning.
  static std::optional<ReserveSize> parse(std::string_view text);
  std::string text() const;

  friend bool operator==(const ReserveSize&, const ReserveSize&) = default;
};

struct TorchReserve {
  std::optional<ReserveSize> usual;             // none: 9/8 of the device's memory, more than any program needs
  std::map<std::string, ReserveSize> by_class;  // of streams tagged by the program
  std::map<std::uint64_t, std::string> class_of_stream;  // by handle; not recorded in any history

  std::optional<Bytes> memory;  // the device's; none: unknown

  /// The address range size for a stream; none: no limit, also if it is a share of unknown memory.
  std::optional<Bytes> limit(std::uint64_t stream) const;
  bool is_set() const { return usual || !by_class.empty(); }

  // "[weights:0.5,serving:40G]" and "[0:weights,0x7f00:serving]", the syntax of policy parameters; "none" if empty.
  static std::optional<std::map<std::string, ReserveSize>> parse_classes(std::string_view text);
  static std::optional<std::map<std::uint64_t, std::string>> parse_streams(std::string_view text);
  std::string classes_text() const;
  std::string streams_text() const;

  friend bool operator==(const TorchReserve&, const TorchReserve&) = default;
};

// Settings of PyTorch's allocator of pinned host memory, and what it rounds requests to.
//
// Source: c10/core/CachingHostAllocator.h of PyTorch 2.15 and ATen/cuda/CachingHostAllocator.cpp. The two limits came
// with 2.13. The policy torch.host (analyzer/replay/policies/torch_host.h) has the rest of its rules.

struct TorchHostSettings {
  /// The heap of pinned memory and the policy; the value of `kind` in the heap's settings.
  static constexpr std::string_view policy = "torch.host";
  /// The heap of what is not pinned, which PyTorch gets from the C library.
  static constexpr std::string_view pageable_heap = "torch.cpu";
  static constexpr const char* threshold_key = "pinned_max_round_threshold_mb";
  static constexpr const char* cached_key = "pinned_max_cached_size_mb";
  static constexpr const char* reserve_key = "pinned_reserve_segment_size_mb";
  static constexpr Bytes unlimited{std::numeric_limits<std::uint64_t>::max()};
  static constexpr Bytes reserve_alignment = 4_KiB;

  Bytes round_threshold = unlimited;  // larger requests are not rounded
  Bytes cached = unlimited;           // larger blocks are released when freed, and not rounded
  Bytes reserve;                      // size of the segment from which small blocks are cut; 0: none

  /// Settings as texts by key, every one given; parse() turns them into the same settings.
  std::map<std::string, std::string> parameters() const;
  /// Keys that are missing keep their defaults. `policy` is named in errors: a value that PyTorch would not accept.
  static Result<TorchHostSettings> parse(const std::map<std::string, std::string>& parameters,
                                         std::string_view policy = TorchHostSettings::policy);
  /// From the `allocator_settings` of a snapshot, where the limits are listed in bytes; the reserve is only in the text
  /// of PyTorch's variable.
  static TorchHostSettings recorded(const std::map<std::string, std::string>& settings);

  Bytes round(Bytes requested) const {
    constexpr Bytes largest{std::uint64_t{1} << 62U};
    if (requested > round_threshold || requested > cached || requested > largest) return requested;
    return Bytes{std::bit_ceil(requested.count)};
  }
};

struct TorchSettings {
  static constexpr std::string_view release_key = "release";

  static constexpr Bytes min_block = 512_B;  // every size is a multiple of it
  static constexpr unsigned min_block_log2 = 9;
  static constexpr Bytes max_small = 1_MiB;         // the largest rounded size served by the small pools
  static constexpr Bytes small_segment = 2_MiB;     // of the small pools; of none in the large ones
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

  /// Settings as texts by key, every one given: PyTorch's keys, with "unlimited", "full", "none" and 0 for what can't
  /// be said there, and memreel's own (is_own_key()). parse() turns them into the same settings.
  std::map<std::string, std::string> parameters() const;
  /// `policy` is named in errors: a value that PyTorch would not accept.
  static Result<TorchSettings> parse(const std::map<std::string, std::string>& parameters, std::string_view policy);
  /// Whether a key of parameters() is not one of PyTorch's.
  static bool is_own_key(std::string_view key);

  /// Reads the `allocator_settings` of a snapshot: missing or malformed entries keep their defaults. What PyTorch does
  /// not list there is taken from the text of its variable, which it does list; a memreel recording has only that text.
  static TorchSettings recorded(const std::map<std::string, std::string>& settings);
  /// The memory fraction set in the text, which recorded() leaves out: a replay at the capacity implied by a history is
  /// already within that limit. 1: none.
  static double recorded_fraction(const std::map<std::string, std::string>& settings);

  /// The size that the allocator looks for when `requested` bytes are requested.
  Bytes round(Bytes requested) const {
    constexpr Bytes largest{std::uint64_t{1} << 62U};
    const Bytes size = std::clamp(requested, 1_B, largest);
    const std::uint32_t n = divisions[power2_division_of(size)];
    if (n > 1 && size > min_block * n) return round_to_division(size, n);
    if (n == 1 && size > min_block && release.has(torch_rule::ones_are_exact)) return size;
    return round_up(size, min_block);
  }

  /// The same without divisions.
  static Bytes round_to_block(Bytes requested) { return round_up(std::max(requested, 1_B), min_block); }

  /// Whether round() differs from round_to_block().
  bool divides() const {
    return leaves_exact() || std::ranges::any_of(divisions, [](std::uint32_t n) { return n > 1; });
  }
  /// Whether sizes need not be multiples of a block.
  bool leaves_exact() const { return release.has(torch_rule::ones_are_exact) && std::ranges::count(divisions, 1U) > 0; }

  static bool is_small(Bytes rounded) { return rounded <= max_small; }

  /// The size of the segment taken from the device if no free block serves `rounded`.
  Bytes segment_size(Bytes rounded) const {
    if (is_small(rounded)) return small_segment;
    if (rounded < min_own_segment) return large_segment;
    return round_up(rounded, own_segment_rounding);
  }

  /// The unit in which memory is mapped in an expandable segment.
  Bytes run_size(bool small) const { return small ? small_segment : large_segment; }

  /// Whether expandable segments serve a pool.
  bool expands(bool private_pool) const {
    return expandable && !(private_pool && release.has(torch_rule::segments_for_private_pools));
  }

  /// Whether a free block of `size` bytes, which is at least `rounded`, may serve the request.
  bool may_serve(Bytes size, Bytes rounded) const {
    if (rounded < max_split_size) return size < max_split_size;
    return size - rounded < max_non_split_rounding;
  }

  /// The smallest rest that becomes a block of its own, in the small or the large pools.
  Bytes least_rest(bool small) const { return small || expandable ? min_block : max_small + 1_B; }
  /// Whether the `rest` of a block that serves a request is split off. Small requests are below any max_split_size.
  bool splits(Bytes rest, Bytes rounded) const {
    return rest >= least_rest(is_small(rounded)) && (expandable || rounded < max_split_size);
  }

  /// If garbage was collected while `reserved` bytes were held, the capacity was below this; 0 if collection is off.
  Bytes collected_below(Bytes reserved) const;
};

}  // namespace memreel
