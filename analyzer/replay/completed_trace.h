// SPDX-License-Identifier: Apache-2.0
// Prepares a recorded trace for analysis.
#pragma once

#include <map>
#include <set>

#include "analyzer/analysis/history/levels.h"
#include "analyzer/replay/torch_calls.h"
#include "formats/model/lost_frees.h"
#include "formats/torch/settings.h"

namespace memreel {

/// Completes a trace for all analyses and the viewer: links its levels (analyzer/analysis/history/levels.h), so that
/// nothing is counted twice; takes the frees of a program's own pools that free nothing, since they were requested
/// before, from their allocations; and adds the calls that PyTorch's allocator does not record (torch_calls.h), the
/// frees that were lost (lost_frees.h) and the initial heaps of a flight recorder's trace (restated_heaps()). Returns
/// the number of changed events; 0: none.
std::size_t complete_trace(Trace& trace);

/// Whether complete_trace() may change a trace with this header and these tables. `lacks_frees`: may_lack_frees().
bool may_be_completed(const Header& header, const Tables& tables, bool lacks_frees);

/// The same block by block, for a trace that is read more than once. Memory: segments, and the driver's allocations.
class CompletedStream {
 public:
  /// `tables` may grow, and must outlive the first pass.
  explicit CompletedStream(const Tables& tables) : ties_(tables) {}

  /// The first pass: processes the next events.
  void see(const EventColumns& events);
  /// Ends the first pass; `tables` must be complete. Returns false if there is nothing to change, so no second pass is
  /// needed.
  bool end_first_pass(const Header& header, const Tables& tables, bool lacks_frees);
  /// The second pass: processes the same events again.
  void see_again(const EventColumns& events);
  void end_second_pass();

  /// Includes the origins of changed events; valid after the second pass.
  const Tables& tables() const { return tables_; }

  /// Yields the trace's final events from the beginning; may be created repeatedly after the second pass.
  class Pass {
   public:
    explicit Pass(const CompletedStream& subject) : subject_(&subject) {
      if (subject.lacks_frees_) frees_.emplace(subject.tables_);
    }
    /// The final form of the next events. Valid until the next call.
    const EventColumns& next(const EventColumns& events);

   private:
    const CompletedStream* subject_;
    std::optional<LostFrees> frees_;
    EventColumns out_;
    std::uint32_t seen_ = 0;  // number of events of the trace
    std::uint32_t tied_ = 0;  // number of events left after linking levels
    std::size_t call_ = 0;    // index of the next
  };

 private:
  LevelTies ties_;
  TiedLevels tied_levels_;
  Tables tables_;
  std::optional<TorchCalls> finder_;
  std::vector<TorchCall> calls_;
  std::uint32_t seen_ = 0, tied_ = 0;
  bool lacks_frees_ = false;
};

// How the memory was divided that PyTorch's allocators held where a flight recorder's trace begins.

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
