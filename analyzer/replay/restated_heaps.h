// SPDX-License-Identifier: Apache-2.0
// How the memory was divided that PyTorch's allocators held where a flight recorder's trace begins.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "formats/model/initial_heap.h"
#include "formats/model/trace.h"
#include "formats/torch/settings.h"

namespace memreel {

/// A flight recorder's trace begins with events for what was live at FoldedHistory::until: segments, and blocks with
/// the sizes requested. PyTorch's rules tell nearly all of the rest: what lies between blocks is one free block, since
/// free blocks are merged with their neighbours, unless it was too small to be split off the block in front of it.
///
/// Example, in a segment of 20 MiB of the large pool with blocks of 3 MiB at 0 and of 4 MiB at 3.5 MiB:
///
///   0        3    3.5     7.5                        20 MiB
///   | 3 MiB  + .5 | 4 MiB |  12.5 MiB                |
///
/// The 0.5 MiB belong to the first block: what is split off is larger than 1 MiB. So may the first MiB of the last 12.5
/// belong to the second. What comes later tells: requests are served from the front of a free block, so it begins at
/// the first one in this place. An expandable segment begins at the lowest address that is ever mapped.
class RestatedHeaps {
 public:
  /// `tables` may grow, and must outlive this. `until`: FoldedHistory::until.
  RestatedHeaps(const Tables& tables, Nanoseconds until) : tables_(tables), until_(until) {}

  /// The trace's next events. False if later ones are of no interest.
  bool see(const EventColumns& events);

  /// The heaps of PyTorch whose blocks fit into their segments. Unlike those of others, the events that stand for their
  /// blocks are in any order.
  std::vector<InitialHeap> heaps() &&;

 private:
  struct Block {
    AllocationId id = AllocationId::none;
    Bytes requested;
    bool pending = false;
  };
  struct Segment {
    Bytes size;
    OriginId origin = OriginId::none;
    bool mapped = false;
  };
  struct Held {
    std::map<Address, Segment> segments;
    std::map<Address, Block> blocks;
    std::map<AllocationId, Address> by_id;
    std::map<std::string, std::string> settings;
  };
  /// A free block whose first bytes may belong to the block in front of it.
  struct Unsure {
    Bytes size;
    std::size_t segment = 0, block = 0;  // the one in front of it
  };
  struct Heap {
    InitialHeap initial;
    Bytes most;  // ranges of addresses are farther apart
    std::map<Address, Unsure> unsure;
    std::map<AllocationId, Address> unsure_behind;  // by the allocation in front of it; some are no longer unsure
  };
  using Blocks = std::map<Address, Block>::const_iterator;

  void restate(const Event& event, Held& held) const;
  void end_restating();
  bool divide(Heap& heap, const TorchSettings& settings, Blocks& block, Blocks end) const;
  void learn(const Event& event, Heap& heap);

  const Tables& tables_;
  Nanoseconds until_;
  bool restates_ = true;
  std::map<HeapId, Held> held_;
  std::map<HeapId, Heap> heaps_;
  std::set<HeapId> unknown_;  // their blocks don't fit
};

/// Of a whole trace, as it was read. None if it is no flight recorder's, or allocations had no room in it.
std::vector<InitialHeap> restated_heaps(const Trace& trace);

}  // namespace memreel
