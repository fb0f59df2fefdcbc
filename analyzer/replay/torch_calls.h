// SPDX-License-Identifier: Apache-2.0
// Calls of a program to PyTorch's allocator, in recordings that only have what the allocator did.
#pragma once

#include <map>
#include <memory>
#include <unordered_map>

#include "formats/model/tables.h"
#include "formats/model/trace.h"
#include "formats/model/units.h"
#include "formats/torch/settings.h"

namespace memreel {

// Finds the pools that hand out their free blocks whole: torch.cuda.MemPool(no_split=True). No history identifies them.
//
// Source: should_split() in c10/cuda/CUDACachingAllocator.cpp; histories of PyTorch 2.11 and 2.15 (tests/lab/run).

/// Follows one PyTorch heap. A private pool splits nothing if each of its allocations lies at the start of memory that
/// was obtained in one call, and if at least once it passed over the remainders left by others: it took more memory, or
/// a larger block. A pool that shows neither may be of either kind, and both behave alike.
class UnsplitPools {
 public:
  void set(const TorchSettings& settings) { settings_ = settings; }

  /// A segment, or mapped memory, was obtained.
  void taken(const Origin& origin, Address address, Bytes size);
  void given_back(const Origin& origin, Address address, Bytes size);
  /// `slot` names the allocation until it is completed.
  void allocated(const Origin& origin, std::uint32_t slot, Address address, Bytes requested);
  void completed(std::uint32_t slot);

  bool contains(PoolId pool) const;

 private:
  /// Memory obtained in one call.
  struct Piece {
    Bytes size;
    StreamId stream = StreamId::default_stream;
    Bytes used;         // by the allocation at its front; 0: free
    bool fresh = true;  // obtained for the request that follows
  };
  struct Pool {
    std::map<Address, Piece> pieces;
    bool splits = false;
    bool passed_over = false;  // passed over what would have served a request if the pool split
  };

  /// Whether the remainder of a used piece would have been handed out instead of `piece`.
  bool passes_over(const Pool& pool, Address address, const Piece& piece, Bytes rounded) const;

  TorchSettings settings_;
  std::map<PoolId, Pool> pools_;
  struct Live {
    PoolId pool;
    Address address;
  };
  std::unordered_map<std::uint32_t, Live> live_;  // by slot; of pools that may qualify
};

/// memreel's recordings of PyTorch's allocator contain the allocator's own trace, as its histories do; in both,
/// torch.cuda.empty_cache() and the end of a private pool leave no record except the released memory. Adds the same
/// events in front of the same releases as the import of a history does (formats/import/torch/empty_cache.h,
/// empty_cache.h). Returns how many.
std::size_t infer_torch_calls(Trace& trace);

/// An unrecorded call, in front of event number `before`.
struct TorchCall {
  std::uint32_t before = 0;
  EventKind kind = EventKind::unknown;
  OriginId origin = OriginId::none;
};

/// Finds these calls, in a separate pass. Memory: all segments there ever were; everything, if expandable segments are
/// combined with a max_split_size.
class TorchCalls {
 public:
  /// `tables` must be complete and outlive this object; the origins of the calls are added to them.
  explicit TorchCalls(Tables& tables);
  TorchCalls(TorchCalls&&) noexcept;
  TorchCalls& operator=(TorchCalls&&) noexcept;
  ~TorchCalls();

  /// Whether any heap can have such calls.
  bool possible() const;
  /// Processes the next event and its number. Frees need not have the address and size of their allocation.
  void see(const Event& event, std::uint32_t number);
  /// The same for all events.
  void see(const Events& events);
  /// The calls, in order.
  std::vector<TorchCall> find() &&;

 private:
  class Inference;
  std::vector<std::unique_ptr<Inference>> heaps_;
};

}  // namespace memreel
