// SPDX-License-Identifier: Apache-2.0
// How a trace names NCCL's ranges: NCCL marks each of its calls (NVTX), from 2.25 on with the communicator.
#pragma once

#include <charconv>
#include <cstdint>
#include <string_view>

namespace memreel {

/// Between the name of a function of NCCL and the 16 hexadecimal digits of its communicator, which NCCL_DEBUG=INFO
/// calls commId. Communicators of one process on several devices may have the same.
inline constexpr std::string_view nccl_communicator = ", communicator 0x";

struct NcclRange {
  std::string_view function;
  std::uint64_t communicator = 0;  // 0: not recorded
};

inline NcclRange nccl_range(std::string_view mark) {
  NcclRange range{.function = mark};
  const std::size_t at = mark.find(nccl_communicator);
  if (at == std::string_view::npos) return range;
  range.function = mark.substr(0, at);
  const std::string_view digits = mark.substr(at + nccl_communicator.size());
  std::from_chars(digits.data(), digits.data() + digits.size(), range.communicator, 16);
  return range;
}

}  // namespace memreel
