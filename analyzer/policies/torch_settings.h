// What can be set on PyTorch's CUDA caching allocator, and the sizes that follow from it.
//
// Source: c10/cuda/CUDACachingAllocator.cpp, c10/core/AllocatorConfig.h and c10/cuda/CUDAAllocatorConfig.cpp as of
// PyTorch 2.11; what values are taken, and which table a list of divisions gives, was tried out. max_non_split_rounding
// came with PR #136174, large_segment_size with PR #172056; in earlier releases both have the value that is their
// default here. Where only the second is set, the first is as large: histories recorded with 32, 40 and 128 MiB say so.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "analyzer/engine/policy_spec.h"
#include "formats/model/result.h"
#include "formats/model/units.h"

namespace memreel {

struct TorchSettings {
  /// Which of several free blocks of a size is taken. Shown by histories of each release, from its wheel above a
  /// made-up CUDA (tests/lab): PR #178362 brought the second, PR #183591 the third.
  enum class TieBreak : std::uint8_t {
    address,          // the one at the lowest address: 2.1 to 2.11
    block_counter,    // the one that was made first, be it as a segment or cut off another block: 2.12
    segment_counter,  // the one of the segment that was got first, in it the lowest address: from 2.13 on
  };
  static constexpr std::string_view tie_break_key = "tie_break";
  /// What the import of a snapshot adds to `allocator_settings` where the snapshot tells its release: "2.12".
  static constexpr std::string_view release_key = "pytorch_release";
  /// Of a release such as "2.12", "2.13.0+cu130" or "2.14 or newer"; nothing when the text names none from 2.1 on.
  static std::optional<TieBreak> tie_break_of(std::string_view release);
  /// The releases with a rule: "2.1 to 2.11".
  static std::string_view releases_of(TieBreak tie_break);

  static constexpr Bytes min_block = 512_B;         // every size is a multiple of it
  static constexpr Bytes max_small = 1_MiB;         // the largest rounded size that the small pools serve
  static constexpr Bytes small_segment = 2_MiB;     // of the small pools
  static constexpr Bytes min_own_segment = 10_MiB;  // requests from here on get a segment cut to their size
  static constexpr Bytes own_segment_rounding = 2_MiB;
  static constexpr Bytes unlimited{std::numeric_limits<std::uint64_t>::max()};

  Bytes max_split_size = unlimited;           // blocks of this size and larger are never split
  Bytes max_non_split_rounding = 20_MiB;      // how much larger one of them may be than the request it serves
  Bytes large_segment = 20_MiB;               // for requests above max_small and below min_own_segment
  double garbage_collection_threshold = 0;    // share of the capacity; 0: off
  std::array<std::uint32_t, 16> divisions{};  // roundup_power2_divisions for sizes from 1 MiB, 2 MiB ... 32 GiB;
                                              // 0 and 1: off
  bool expandable = false;                    // expandable_segments
  double memory_fraction = 1;                 // per_process_memory_fraction: of the device's memory; 1: no limit
  TieBreak tie_break = TieBreak::address;

  /// From the parameters of a spec. Errors: a value that PyTorch would not take.
  static Result<TorchSettings> parse(const PolicySpec& spec);
  /// From the `allocator_settings` of a snapshot: what is missing or malformed keeps its default. What PyTorch does not
  /// list there is taken from the text of PYTORCH_CUDA_ALLOC_CONF, which it does; a recording of memreel's has only
  /// that.
  static TorchSettings recorded(const std::map<std::string, std::string>& settings);
  /// The memory fraction that the text of PYTORCH_CUDA_ALLOC_CONF sets, which recorded() leaves out: a replay at the
  /// capacity that a history implies is within that limit already. 1: none.
  static double recorded_fraction(const std::map<std::string, std::string>& settings);
  /// The spec of torch.native that parse() turns into these settings, every parameter given.
  PolicySpec spec() const;

  /// The size that the allocator looks for when `requested` bytes are asked for.
  Bytes round(Bytes requested) const {
    const std::uint32_t n = divisions[bucket(requested)];
    return n > 1 && requested > min_block * n ? round_to_division(requested, n) : round_to_block(requested);
  }

  /// The same when no divisions are set.
  static Bytes round_to_block(Bytes requested) { return round_up(std::max(requested, 1_B), min_block); }

  bool divides() const {
    return std::ranges::any_of(divisions, [](std::uint32_t n) { return n > 1; });
  }

  static bool is_small(Bytes rounded) { return rounded <= max_small; }

  /// The segment that is taken from the device when no free block serves `rounded`.
  Bytes segment_size(Bytes rounded) const {
    if (is_small(rounded)) return small_segment;
    if (rounded < min_own_segment) return large_segment;
    return round_up(rounded, own_segment_rounding);
  }

  /// The unit in which memory is mapped behind an expandable segment.
  Bytes run_size(bool small) const { return small ? small_segment : large_segment; }

  /// When garbage was collected while `reserved` bytes were held, the capacity was below this; 0 when collecting is
  /// off.
  Bytes collected_below(Bytes reserved) const;

 private:
  /// Which power of two divides sizes like this one: 1 MiB and less, 2 MiB ... 32 GiB and more.
  static std::size_t bucket(Bytes size) {
    const auto width = static_cast<unsigned>(std::bit_width(size.count));
    return width <= 20 ? 0 : std::min(width - 21, 15U);
  }
  /// Up to the next of `divisions` equal steps between two powers of two.
  static Bytes round_to_division(Bytes size, std::uint32_t divisions);
};

}  // namespace memreel
