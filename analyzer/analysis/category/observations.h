// SPDX-License-Identifier: Apache-2.0
// Observations of each allocation, the input of all conclusions.
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <unordered_map>

#include "analyzer/analysis/category/activity.h"
#include "analyzer/analysis/history/lifetimes.h"
#include "formats/model/trace.h"
#include "formats/model/units.h"

namespace memreel {

// Allocations grouped by stack, and sizes that say what an allocation is.

/// CUBLAS_WORKSPACE_CONFIG=":4096:2:16:8": hardly the size of anything else.
inline constexpr Bytes odd_workspace = 8320_KiB;

/// Whether cuBLAS or cuBLASLt get a workspace of this size from PyTorch (at::cuda::getChosenWorkspaceSize,
/// CUBLAS_WORKSPACE_CONFIG): ":4096:8" on Hopper and newer, ":4096:2:16:8" before; cuBLASLt's default of 1 MiB.
inline bool is_workspace_size(Bytes size) {
  constexpr std::array sizes{32_MiB, odd_workspace, 1_MiB};
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

/// Whether an allocation of a forward pass belongs to a graph that the pass keeps for a backward pass: many of its
/// allocations, from its beginning to its end, are released at once.
enum class Graph : std::uint8_t {
  none,
  released,  // at once, and by no backward pass
  at_end,    // live when the recording ends
};

/// One allocation's life in terms of phases and passes.
struct Observation {
  std::uint32_t begin = never;  // event index
  std::uint32_t end = never;    // event index of the free; `never`: live when the recording ends
  std::uint32_t made_in = 0;    // pass number
  std::uint32_t freed_in = 0;   // pass number; that of the last one if never freed
  Bytes size;
  StackId stack = StackId::none;
  Phase phase = Phase::other;
  Graph graph = Graph::none;
  // Bits, because there is one of these for each allocation.
  bool torch : 1 = false;         // a request to a framework's heap in a trace that shows PyTorch's frames
  bool private_pool : 1 = false;  // not of the default pool
  bool freed_by_backward : 1 = false;
  bool freed_in_module : 1 = false;  // the free's stack is inside a module call
  bool freed_by_zero_grad : 1 = false;
  bool meets_forward : 1 = false;  // made outside modules, and live when the next module call begins
  bool older : 1 = false;          // than the recording

  bool is_freed() const { return end != never; }
  bool outlives_its_pass() const { return freed_in != made_in || !is_freed(); }
};

struct Observations {
  const Activity& activity;
  std::vector<Observation> allocations;  // by AllocationId
  std::uint32_t first_forward = never;   // event index
  std::uint32_t last_forward = never;
  /// The last allocation of a pass or free by a forward pass or an optimizer: what is freed later ends with the
  /// program.
  std::uint32_t last_work = 0;
  std::vector<std::vector<AllocationId>> older_releases;  // allocations older than the recording that are freed at once

  const StackMeaning& meaning(const Observation& of) const { return activity.stacks[index(of.stack)]; }
  bool trains() const { return activity.phases.has_backward; }
  /// The last pass of the recording.
  std::uint32_t last_pass() const { return static_cast<std::uint32_t>(activity.phases.of_pass.size() - 1); }
  /// Made before the first forward pass and kept for most of the recording's passes.
  bool is_kept_from_setup(const Observation& of) const {
    if (of.begin > first_forward) return false;
    return !of.is_freed() || of.end > first_forward + (last_forward - first_forward) / 2;
  }
};

/// `lives`: lifetimes(trace). `activity` outlives the result.
Observations observe(const Trace& trace, std::span<const Lifetime> lives, const Activity& activity);

// What a pass that an error ends leaves beside its graph.

/// An error frees what the functions that it leaves were working with, at once with the graph of their pass, or holds
/// both. Sets Observation::graph to `none` for what is a temporary by earlier allocations of its stack, on any device:
/// all were freed in their pass, either in passes with a backward pass, or while this graph grew and before the stack's
/// next one was made on their device. Where that is so for half of a graph, it is another kind of pass, and nothing is
/// concluded. O(n log n).
void take_temporaries_from_graphs(const Trace& trace, Observations& seen);

// Numbers the runs of a line in a model's forward(), for recordings that don't identify the called module.

/// `x = block(x)` in a loop over twelve blocks gives the same stacks twelve times. Allocations of a forward pass below
/// such a line are numbered by the run of the line.
struct LayerCalls {
  static constexpr std::uint16_t none = 0xffff;
  static constexpr std::uint32_t most = 256;  // a line that runs more often in a pass is no loop over layers

  std::vector<StackId> line;  // by StackId: the outermost part of the stack that is such a line; none: no part is
  std::vector<std::uint16_t> number;  // by AllocationId: the run within its pass, from 0; none: unknown

  std::uint16_t of(std::uint32_t allocation) const { return allocation < number.size() ? number[allocation] : none; }
};

/// A line ran g times in a pass if each of the stacks below it (at least three) made a multiple of g allocations. What
/// holds in most passes counts; the other passes are not numbered. Empty if the recording knows modules. Time: linear
/// in allocations, and in the depth of stacks.
LayerCalls find_layer_calls(const Trace& trace, const Activity& activity);

}  // namespace memreel
