// What kernels ask for beside their result: scratch that comes, grows and stops growing at sizes which follow from a
// library's source, where no recording of a smaller run can show it. Such requests are computed, not learned.
//
// All kernels that are known:
//   sums, as a bias' gradient and a loss are     sum_scratch.h          from 256 numbers a thread on
//   the gradient of an embedding                 embedding_gradient.h   from 3,073 indices on
#pragma once

#include <cstdint>
#include <vector>

#include "formats/model/units.h"

namespace memreel {

/// What of a GPU decides it. The defaults are those of an H100 and an H200.
struct GpuTraits {
  std::uint64_t multiprocessors = 132;
  std::uint64_t threads = 2048;           // that each of them runs at once
  std::uint32_t compute_capability = 90;  // 10 * major + minor

  friend bool operator==(const GpuTraits&, const GpuTraits&) = default;
};

/// Bytes of the numbers in which kernels add up.
inline constexpr std::uint64_t sum_bytes = 4;

constexpr std::uint64_t divide_up(std::uint64_t a, std::uint64_t b) { return (a + b - 1) / b; }

struct KernelRequest {
  Bytes size;
  std::uint32_t lifetime = 0;  // how many requests of the kernel, that for its result included, come before it is freed

  friend bool operator==(const KernelRequest&, const KernelRequest&) = default;
};

/// In the order in which they are made. What is freed at the same time is freed in the opposite order.
struct KernelRequests {
  std::vector<KernelRequest> before, after;  // the request for the result

  bool empty() const { return before.empty() && after.empty(); }
  friend bool operator==(const KernelRequests&, const KernelRequests&) = default;
};

}  // namespace memreel
