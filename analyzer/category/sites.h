// Allocations grouped by stack, and sizes that say what an allocation is.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "formats/model/ids.h"
#include "formats/model/units.h"

namespace memreel {

/// Whether cuBLAS or cuBLASLt get a workspace of this size from PyTorch (at::cuda::getChosenWorkspaceSize,
/// CUBLAS_WORKSPACE_CONFIG): ":4096:8" on Hopper and newer, ":4096:2:16:8" before; cuBLASLt's default of 1 MiB.
inline bool is_workspace_size(Bytes size) {
  constexpr std::array sizes{32_MiB, 8320_KiB, 1_MiB};
  return std::ranges::find(sizes, size) != sizes.end();
}

/// The number of allocations of each size.
class SizeCounts {
 public:
  void add(Bytes size) { ++counts_[size.count]; }
  std::uint32_t count(Bytes size) const {
    const auto found = counts_.find(size.count);
    return found == counts_.end() ? 0 : found->second;
  }
  bool has(Bytes size) const { return counts_.contains(size.count); }
  bool empty() const { return counts_.empty(); }
  std::uint32_t total() const {
    std::uint32_t sum = 0;
    for (const auto& [size, count] : counts_) sum += count;
    return sum;
  }

 private:
  std::unordered_map<std::uint64_t, std::uint32_t> counts_;
};

/// Allocations grouped by stack.
class Sites {
 public:
  explicit Sites(std::size_t stacks) : of_stack_(stacks) {}
  void add(StackId stack, AllocationId id) { of_stack_[index(stack)].push_back(id); }
  const std::vector<std::vector<AllocationId>>& of_stack() const { return of_stack_; }

 private:
  std::vector<std::vector<AllocationId>> of_stack_;
};

}  // namespace memreel
