// Finds the pools that hand out their free blocks whole: torch.cuda.MemPool(no_split=True). No history says which they
// are.
//
// Source: should_split() in c10/cuda/CUDACachingAllocator.cpp; histories of PyTorch 2.11 and 2.15 (tests/lab/run).
#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>

#include "analyzer/policies/torch_settings.h"
#include "formats/model/ids.h"
#include "formats/model/tables.h"
#include "formats/model/units.h"

namespace memreel {

/// Follows one heap of PyTorch's. A private pool splits nothing when each of its allocations lies where memory begins
/// that it got at once, and it passed over what others left of theirs at least once: it took more memory, or a larger
/// block. A pool that shows neither may be either, and both behave alike.
class UnsplitPools {
 public:
  void set(const TorchSettings& settings) { settings_ = settings; }

  /// A segment, or what was mapped.
  void taken(const Origin& origin, Address address, Bytes size);
  void given_back(const Origin& origin, Address address, Bytes size);
  /// `slot` names the allocation until it is completed.
  void allocated(const Origin& origin, std::uint32_t slot, Address address, Bytes requested);
  void completed(std::uint32_t slot);

  bool contains(PoolId pool) const;

 private:
  /// What was got at once.
  struct Piece {
    Bytes size;
    StreamId stream = StreamId::default_stream;
    Bytes used;         // by the allocation at its front; 0: free
    bool fresh = true;  // got for the request that follows
  };
  struct Pool {
    std::map<Address, Piece> pieces;
    bool splits = false;
    bool passed_over = false;  // what would have served a request, if the pool split
  };

  /// Whether what is left of a used piece would have been handed out instead of `piece`.
  bool passes_over(const Pool& pool, Address address, const Piece& piece, Bytes rounded) const;

  TorchSettings settings_;
  std::map<PoolId, Pool> pools_;
  struct Live {
    PoolId pool;
    Address address;
  };
  std::unordered_map<std::uint32_t, Live> live_;  // by slot; of pools that may be among those
};

}  // namespace memreel
