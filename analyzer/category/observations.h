// Observations of each allocation, the input of all conclusions.
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/category/phases.h"
#include "analyzer/category/stack_meanings.h"
#include "analyzer/history/lifetimes.h"
#include "formats/model/trace.h"

namespace memreel {

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
  bool torch = false;         // a request to a framework's heap in a trace that shows PyTorch's frames
  bool private_pool = false;  // not of the default pool
  bool freed_by_backward = false;
  bool freed_in_module = false;  // the free's stack is inside a module call
  bool freed_by_zero_grad = false;
  bool meets_forward = false;  // made outside modules, and live when the next module call begins
  bool older = false;          // than the recording
  Graph graph = Graph::none;

  bool is_freed() const { return end != never; }
  bool outlives_its_pass() const { return freed_in != made_in || !is_freed(); }
};

struct Observations {
  std::vector<StackMeaning> stacks;
  Phases phases;
  std::vector<Observation> allocations;  // by AllocationId
  std::uint32_t first_forward = never;   // event index
  std::uint32_t last_forward = never;
  /// The last allocation of a pass or free by a forward pass or an optimizer: what is freed later ends with the
  /// program.
  std::uint32_t last_work = 0;
  std::vector<std::vector<AllocationId>> older_releases;  // allocations older than the recording that are freed at once

  const StackMeaning& meaning(const Observation& of) const { return stacks[index(of.stack)]; }
  bool trains() const { return phases.has_backward; }
  /// The last pass of the recording.
  std::uint32_t last_pass() const { return static_cast<std::uint32_t>(phases.of_pass.size() - 1); }
  /// Made before the first forward pass and kept for most of the recording's passes.
  bool is_kept_from_setup(const Observation& of) const {
    if (of.begin > first_forward) return false;
    return !of.is_freed() || of.end > first_forward + (last_forward - first_forward) / 2;
  }
};

Observations observe(const Trace& trace);

}  // namespace memreel
