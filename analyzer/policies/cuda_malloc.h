// cuda.malloc: every request is a cudaMalloc, every free a cudaFree.
//
// Source: measured on an H200 with CUDA 13.0. Addresses are 512 B apart; requests up to 1 MiB share pages of 2 MiB,
// larger ones are rounded up to pages of their own. Where in a shared page the driver puts a request is not documented:
// here it is the best fit, the lowest address of several. A shared page goes back when nothing is left in it.
//
// cudaFree waits for the device, so memory is free at once when the program lets go of it.
#pragma once

#include <vector>

#include "analyzer/heap/best_fit_index.h"
#include "analyzer/heap/block_table.h"
#include "analyzer/policies/policy.h"
#include "analyzer/policies/registry.h"
#include "analyzer/replay/device.h"

namespace memreel {

class CudaMalloc {
 public:
  struct Settings {};
  static constexpr bool serves_any_lane = true;
  static constexpr Bytes spacing = 512_B;
  static constexpr Bytes page = 2_MiB;
  static constexpr Bytes max_shared = 1_MiB;

  CudaMalloc(const Prepared& heap, Settings, SimulatedDevice& device)
      : device_(device), block_of_(heap.slot_count + 1, BlockId::none) {}

  bool allocate(std::uint32_t slot, Bytes size, std::uint32_t lane);
  void free_requested(std::uint32_t slot, Bytes size);
  void free(std::uint32_t slot, Bytes size) { free_requested(slot, size); }
  void free_completed(std::uint32_t, Bytes) {}
  void empty_cache() {}

  const HeapUse& use() const { return use_; }
  Bytes largest_free() const { return shared_.largest(); }
  const DriverCalls& driver_calls() const { return calls_; }
  const Block& block_of(std::uint32_t slot) const { return table_[block_of_[slot]]; }
  Extent extent_of(std::uint32_t slot) const {
    const Block& block = block_of(slot);
    return {block.address, block.size};
  }
  void for_each_free(auto&& visit) const {
    table_.for_each([&](const Block& block) {
      if (block.state == BlockState::free) visit(FreeBlock{.size = block.size});
    });
  }
  const BlockTable& blocks() const { return table_; }

 private:
  enum : std::uint32_t { shared_arena, own_pages_arena };

  BlockId take_shared(Bytes size);
  BlockId reserve(Bytes size, std::uint32_t arena);
  void merge_with(BlockId neighbour);

  SimulatedDevice& device_;
  HeapUse use_;
  DriverCalls calls_;
  BlockTable table_;
  BestFitIndex shared_{table_, 9};  // free blocks in shared pages
  std::vector<BlockId> block_of_;
};

PolicyEntry cuda_malloc_entry();

}  // namespace memreel
