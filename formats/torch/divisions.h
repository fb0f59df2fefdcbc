// PyTorch's roundup_power2_divisions: the number of steps between consecutive powers of two.
//
// Source: roundup_power2_next_division() in c10/cuda/CUDACachingAllocator.cpp and parseRoundUpPower2Divisions() in
// c10/cuda/CUDAAllocatorConfig.cpp of PyTorch 2.1 to 2.9, c10/core/AllocatorConfig.cpp of 2.10 to 2.15.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "formats/model/units.h"
#include "formats/torch/release.h"

namespace memreel {

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

}  // namespace memreel
