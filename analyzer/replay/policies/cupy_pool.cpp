// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/policies/cupy_pool.h"

#include <map>

#include "analyzer/replay/engine/engine.h"
#include "analyzer/replay/engine/parameters.h"

namespace memreel {

CupyPool::CupyPool(const Prepared& heap, const CupyPoolSettings& settings, Device& device)
    : BlockPolicy(heap), device_(device), limit_(settings.limit) {
  std::map<std::uint64_t, std::uint32_t> arenas;
  for (const PoolStream& pool_stream : heap.pool_streams) {
    const auto [arena, is_new] =
        arenas.try_emplace(pool_stream.stream_handle, static_cast<std::uint32_t>(arenas_.size()));
    if (is_new) {
      arenas_.emplace_back(table_, 8);
      stream_of_.push_back(pool_stream.stream);
    }
    arena_of_.push_back(arena->second);
  }
}

BlockId CupyPool::grow(Bytes size, std::uint32_t arena) {
  auto address = ask_device(size);
  if (!address) {
    free_all_blocks();
    address = ask_device(size);
  }
  if (!address) return BlockId::none;
  use_.reserved += size;
  ++calls_.malloc;
  const BlockId block = table_.add(*address, size, arena);
  put_free(block);
  return block;
}

std::optional<Address> CupyPool::ask_device(Bytes size) {
  if (limit_ && (use_.reserved > *limit_ || size > *limit_ - use_.reserved)) return std::nullopt;
  return device_.reserve(size);
}

void CupyPool::free_all_blocks() {
  for (BestFitIndex& arena : arenas_)
    for (const BlockId id : arena.ordered()) {
      if (table_[id].is_split()) continue;
      const Block block = table_[id];
      take_out(id);
      table_.remove(id);
      use_.reserved -= block.size;
      ++calls_.free;
      ++calls_.sync;  // cudaFree waits for the device
      device_.release(block.address, block.size);
    }
}

PolicyEntry cupy_pool_entry() {
  return {.info = {.name = "cupy.pool",
                   .description = "CuPy's MemoryPool: exact sizes, an arena for each stream",
                   .parameters = {{"limit", "none", AllowedValues::size("8GiB", {"none"}),
                                   "what the pool may hold from the device: MemoryPool.set_limit"}}},
          .bind = [](const PolicySpec& spec) -> Result<BoundPolicy> {
            CupyPoolSettings settings;
            settings.limit = size_or_word(spec, "limit");
            return BoundPolicy{.spec = spec,
                               .unit = CupyPool::alignment,
                               .run = [settings](const Prepared& heap, const RunOptions& options) {
                                 return run_policy<CupyPool>(heap, settings, options);
                               }};
          }};
}

}  // namespace memreel
