// Scratch that kernels request in addition to their result: it appears, grows and stops growing at sizes that follow
// from a library's source, where no recording of a smaller run can show it. Such requests are computed, not learned.
//
// All known kernels:
//   sums, such as a bias' gradient and a loss    sum_scratch.h          from 256 numbers a thread on
//   the gradient of an embedding                 embedding_gradient.h   from 3,073 indices on
#pragma once

#include <cstdint>
#include <vector>

#include "formats/model/units.h"

namespace memreel {

/// The GPU properties that determine the scratch. The defaults are those of an H100 and an H200.
struct GpuTraits {
  std::uint64_t multiprocessors = 132;
  std::uint64_t threads = 2048;           // that each multiprocessor runs at once
  std::uint32_t compute_capability = 90;  // 10 * major + minor

  friend bool operator==(const GpuTraits&, const GpuTraits&) = default;
};

/// Bytes of the numbers that kernels accumulate in.
inline constexpr std::uint64_t sum_bytes = 4;

constexpr std::uint64_t divide_up(std::uint64_t a, std::uint64_t b) { return (a + b - 1) / b; }

struct KernelRequest {
  Bytes size;
  std::uint32_t lifetime = 0;  // number of the kernel's requests, including its result's, before it is freed

  friend bool operator==(const KernelRequest&, const KernelRequest&) = default;
};

/// In request order. What is freed at the same time is freed in reverse order.
struct KernelRequests {
  std::vector<KernelRequest> before, after;  // around the request for the result

  bool empty() const { return before.empty() && after.empty(); }
  friend bool operator==(const KernelRequests&, const KernelRequests&) = default;
};

}  // namespace memreel
