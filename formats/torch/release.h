// SPDX-License-Identifier: Apache-2.0
// PyTorch releases, and the rules of its allocator that not all of them have: one row each, with the releases that have
// it and where its code is.
//
// Confirmed by histories of each release, recorded with its wheel on a fake CUDA (tests/lab), and, for the texts of
// settings, by what each wheel makes of them (tests/data/torch/alloc_conf.txt).
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace memreel {

/// Releases 2.`first` to 2.`last`.
struct TorchReleases {
  static constexpr unsigned newest = std::numeric_limits<unsigned>::max();

  unsigned first = 1;
  unsigned last = newest;
  std::string_view source;  // file and function of PyTorch

  constexpr bool contain(unsigned minor) const { return first <= minor && minor <= last; }
};

/// A rule of the allocator: what holds in some releases only.
namespace torch_rule {

// Which of several free blocks of equal size is taken: the one at the lowest address, or these.
/// The one created first, as a segment or cut off another block.
inline constexpr TorchReleases oldest_block{12, 12, "c10/cuda/CUDACachingAllocator.cpp, PR #178362"};
/// The one in the oldest segment, in it the lowest address.
inline constexpr TorchReleases oldest_segment{13, TorchReleases::newest,
                                              "c10/cuda/CUDACachingAllocator.cpp, PR #183591"};
/// Private pools take segments even with expandable_segments: their checkpoints could not restore ranges.
inline constexpr TorchReleases segments_for_private_pools{1, 4, "c10/cuda/CUDACachingAllocator.cpp, alloc_block"};
/// A 1 in roundup_power2_divisions leaves requests above 512 B unrounded; elsewhere it means no divisions.
inline constexpr TorchReleases ones_are_exact{1, 3, "c10/cuda/CUDACachingAllocator.cpp, round_size"};

// How the text of the settings is read (alloc_conf.h).
/// ">" in a list covers sizes from the last one listed on; elsewhere those above it.
inline constexpr TorchReleases rest_includes_last{1, 9,
                                                  "c10/cuda/CUDAAllocatorConfig.cpp, parseRoundUpPower2Divisions"};
/// Separators must be the right ones, only spaces are blank, and numbers have 32 bits. Elsewhere any separator will do,
/// and all white space is blank.
inline constexpr TorchReleases checks_separators{1, 9, "c10/cuda/CUDAAllocatorConfig.cpp, lexArgs and consumeToken"};
/// max_split_size_mb and max_non_split_rounding_mb must be above 20; elsewhere at least large_segment_size_mb.
inline constexpr TorchReleases splits_above_20{1, 9, "c10/cuda/CUDAAllocatorConfig.cpp, parseMaxSplitSize"};
/// Other variables than PYTORCH_CUDA_ALLOC_CONF are read if it is not set; before, PYTORCH_HIP_ALLOC_CONF only by
/// builds for ROCm.
inline constexpr TorchReleases reads_other_variables{10, TorchReleases::newest,
                                                     "c10/core/AllocatorConfig.cpp, instance"};

}  // namespace torch_rule

struct TorchRelease {
  /// The setting in which an import stores the release that a snapshot reveals ("2.12"), and the key in exported ones.
  static constexpr std::string_view recorded_key = "pytorch_release";

  /// What an import stores there of a snapshot that is older than the rules that memreel knows.
  static constexpr std::string_view before_rules = "2.0";

  enum class TieBreak : std::uint8_t { address, block_counter, segment_counter };

  unsigned minor = 11;  // 2.11; at least 1

  /// Parses text such as "2.12", "2.13.0+cu130", "2.14 or newer", or "2.3 or 2.4", where the second counts; nothing if
  /// it names no release from 2.1 on.
  static std::optional<TorchRelease> parse(std::string_view text);
  /// The release stated among the settings of a heap.
  static std::optional<TorchRelease> recorded(const std::map<std::string, std::string>& settings);
  /// Whether these settings of a heap state a release before 2.1.
  static bool precedes_rules(const std::map<std::string, std::string>& settings);
  std::string text() const { return "2." + std::to_string(minor); }

  constexpr bool has(const TorchReleases& rule) const { return rule.contain(minor); }
  constexpr TieBreak tie_break() const {
    if (has(torch_rule::oldest_block)) return TieBreak::block_counter;
    return has(torch_rule::oldest_segment) ? TieBreak::segment_counter : TieBreak::address;
  }

  /// One release for each set of rules that histories show, the newest rules first.
  static std::vector<TorchRelease> distinct();
  /// The releases whose rules give the same histories: "2.5 to 2.11". How a text is read makes no difference here: a
  /// snapshot holds the result.
  std::string rules() const;

  friend bool operator==(const TorchRelease&, const TorchRelease&) = default;
};

}  // namespace memreel
