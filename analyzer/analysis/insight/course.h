// SPDX-License-Identifier: Apache-2.0
// What a program that uses PyTorch does, in the order of events: passes of optimizers, backward passes, calls of
// modules.
#pragma once

#include <map>
#include <span>

#include "analyzer/analysis/category/activity.h"
#include "analyzer/analysis/insight/private_pools.h"
#include "formats/model/trace.h"

namespace memreel {

/// By FrameId, the first frame of the same place in the code.
std::vector<FrameId> same_places(const Tables& tables);

/// What is allocated in pools that CUDA graphs were captured into. A graph keeps what its capture requested, so a loop
/// of captures builds something: it is no loop of steps.
class Captured {
 public:
  Captured(const Trace& trace, std::span<const HeapPools> pools);

  bool operator()(std::uint32_t event) const {
    return is_of_graphs_[index(trace_.tables[trace_.events.origin(event)].pool)] != 0;
  }

 private:
  const Trace& trace_;
  std::vector<char> is_of_graphs_;  // by PoolId
};

/// A run of events of one phase on one device.
struct Pass {
  static constexpr std::uint32_t no_site = 0;

  std::uint32_t begin = 0, end = 0;   // events; `end` is behind the last
  std::uint32_t site = no_site;       // where the program calls the optimizer, or asks for the backward pass
  FrameId evaluated = FrameId::none;  // the line of an optimizer's step() that evaluated the model before this pass
};

/// Passes of one device. Devices of a process may train models of their own, at the same time.
struct Passes {
  std::vector<Pass> optimizer, backward;
};

struct Course {
  std::map<std::int32_t, Passes> devices;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> calls;  // of modules: the first event, the call site
  std::vector<FrameId> callers;                                // by call site: the program's line that calls it
  bool has_modules = false;
};

Course find_course(const Trace& trace, const Activity& activity, const Captured& captured);

/// The last event of each iteration of the program's loop, +1, of passes of one kind on one device: one that takes
/// several optimizers in turn (GAN, actor and critic) ends where the first of them is reached again, one whose
/// optimizer evaluates the model several times (LBFGS), where step() is entered again.
std::vector<std::uint32_t> ends_of_iterations(const Tables& tables, std::span<const Pass> passes);

}  // namespace memreel
