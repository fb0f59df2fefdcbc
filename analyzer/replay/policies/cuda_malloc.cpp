// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/policies/cuda_malloc.h"

#include <algorithm>

#include "analyzer/replay/engine/engine.h"

namespace memreel {

bool CudaMalloc::allocate(std::uint32_t slot, Bytes size, std::uint32_t) {
  const BlockId block = size <= max_shared ? take_shared(round_up(std::max(size, 1_B), spacing))
                                           : reserve(round_up(size, page), own_pages_arena);
  if (block == BlockId::none) return false;
  table_[block].state = BlockState::allocated;
  use_.allocated += table_[block].size;
  ++calls_.malloc;
  block_of_[slot] = block;
  return true;
}

void CudaMalloc::free_requested(std::uint32_t slot, Bytes) {
  const BlockId id = block_of_[slot];
  Block& block = table_[id];
  use_.allocated -= block.size;
  ++calls_.free;
  ++calls_.sync;
  if (block.arena == shared_arena) {
    table_.absorb_free_neighbours(id, [&](BlockId neighbour) { take_out(neighbour); });
    if (block.is_split()) {
      put_free(id);
      ++calls_.free_shared;
      return;
    }
  }
  use_.reserved -= block.size;
  device_.release(block.address, block.size);
  table_.remove(id);
}

BlockId CudaMalloc::take_shared(Bytes size) {
  BlockId block = BlockId::none;
  if (const BlockId found = shared_.find(size); found != BlockId::none) {
    block = found;
    ++calls_.malloc_shared;
    take_out(block);
  } else {
    block = reserve(page, shared_arena);
    if (block == BlockId::none) return block;
  }
  if (table_[block].size == size) return block;
  const BlockId front = table_.split_front(block, size);
  put_free(block);
  return front;
}

BlockId CudaMalloc::reserve(Bytes size, std::uint32_t arena) {
  const auto address = device_.reserve(size);
  if (!address) return BlockId::none;
  use_.reserved += size;
  return table_.add(*address, size, arena);
}

void CudaMalloc::put_free(BlockId id) {
  table_[id].state = BlockState::free;
  ages_.renew(id);
  shared_.insert(id);
  use_.free += table_[id].size;
}

void CudaMalloc::take_out(BlockId id) {
  shared_.erase(id);
  use_.free -= table_[id].size;
}

PolicyEntry cuda_malloc_entry() {
  return {.info = {.name = "cuda.malloc",
                   .description = "every request a cudaMalloc, every free a cudaFree",
                   .parameters = {},
                   .sub_allocates = false},
          .bind = [](const PolicySpec& spec) -> Result<BoundPolicy> {
            return BoundPolicy{
                .spec = spec, .unit = CudaMalloc::page, .run = [](const Prepared& heap, const RunOptions& options) {
                  return run_policy<CudaMalloc>(heap, CudaMalloc::Settings{}, options);
                }};
          }};
}

}  // namespace memreel
