// Settings of PyTorch's allocator of pinned host memory, and what it rounds requests to.
//
// Source: c10/core/CachingHostAllocator.h of PyTorch 2.15 and ATen/cuda/CachingHostAllocator.cpp. The two limits came
// with 2.13. The policy torch.host (analyzer/policies/torch_host.h) has the rest of its rules.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>

#include "formats/model/result.h"
#include "formats/model/units.h"

namespace memreel {

struct TorchHostSettings {
  /// The heap of pinned memory and the policy; the value of `kind` in the heap's settings.
  static constexpr std::string_view policy = "torch.host";
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

}  // namespace memreel
