// SPDX-License-Identifier: Apache-2.0
// The blocks of PyTorch's allocator, grouped into interchangeable ones.
//
// Source: BlockPool, PrivatePool and their users in c10/cuda/CUDACachingAllocator.cpp of PyTorch 2.11. A free block
// serves requests of its pool, its size class (small or large) and its stream only.
#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <span>
#include <tuple>
#include <type_traits>
#include <unordered_map>

#include "analyzer/replay/engine/policy_interface.h"
#include "analyzer/replay/engine/prepared.h"
#include "analyzer/replay/heap/best_fit_index.h"
#include "analyzer/replay/heap/block_table.h"
#include "analyzer/replay/heap/maxima.h"

namespace memreel {

/// What happens to the remainder of a block whose front is handed out: it becomes a block, or part of the allocation.
enum class TorchSplits : std::uint8_t { large, small, nothing };

/// Interchangeable blocks: of one pool, size class and stream. `Tie`: which of several blocks of equal size comes
/// first.
template <class Tie>
struct TorchArena {
  FitIndex<Tie> free;
  std::map<Address, BlockId> unmapped;  // addresses without memory, by real address
  std::uint32_t number = 0;
  std::uint32_t size_class = 0;
  bool small = false;
  TorchSplits splits = TorchSplits::large;
  PoolId pool = PoolId::default_pool;
  StreamId stream = StreamId::default_stream;
  std::uint64_t stream_handle = 0;
};

/// `Tie` is LowestFirst, or OldestFirst for the release that numbers its blocks (TorchRelease::TieBreak).
template <class Tie>
class TorchPools {
 public:
  using Arena = TorchArena<Tie>;

  /// `counts_searches`: track the ages of blocks. Sizes are multiples of 2^`unit_log2` bytes.
  TorchPools(const Prepared& heap, bool counts_searches, unsigned unit_log2)
      : counts_searches_(counts_searches), unit_log2_(unit_log2) {
    build(heap);
    for (const RecordedSegment& segment : heap.restored_segments) latest_at_[segment.address.value] = BlockId::none;
    notes_free_ = counts_searches_ || !latest_at_.empty();
  }
  TorchPools(const TorchPools&) = delete;  // the indexes point into the table
  TorchPools& operator=(const TorchPools&) = delete;

  Arena& of_pool_stream(std::uint32_t pool_stream, bool small) {
    return *arenas_of_pool_stream_[pool_stream][small ? 1 : 0];
  }
  const Arena& of_pool_stream(std::uint32_t pool_stream, bool small) const {
    return *arenas_of_pool_stream_[pool_stream][small ? 1 : 0];
  }
  PoolId pool_of(std::uint32_t pool_stream) const { return of_pool_stream(pool_stream, false).pool; }
  Arena& arena_of(const Block& block) { return arenas_[block.arena]; }
  const Arena& arena_of(const Block& block) const { return arenas_[block.arena]; }

  /// The arenas of a pool's size class, in search order: by stream handle.
  std::span<Arena> of_pool(PoolId pool, bool small) {
    const auto found = classes_.find({pool, small});
    if (found == classes_.end()) return {};
    return std::span(arenas_).subspan(found->second.first, found->second.count);
  }
  std::span<const Arena> all() const { return arenas_; }

  /// The free blocks of a pool's size class, of about `size` bytes and more, in search order, but none that the
  /// previous call returned and that has not been in use or merged since: for a caller that releases each one that it
  /// can. A program may release after every event, with a hundred thousand blocks that stay.
  std::vector<BlockId> newly_free(PoolId pool, bool small, Bytes size) {
    const std::span<Arena> arenas = of_pool(pool, small);
    if (arenas.empty()) return {};
    NewlyFree& latest = newly_free_[arenas.front().size_class];
    std::vector<BlockId> blocks;
    if (latest.known) {
      const auto is_gone = [&](BlockId id) {
        const Block& block = table_[id];
        return block.size < std::max(size, 1_B) || block.state != BlockState::free ||
               arenas_[block.arena].size_class != arenas.front().size_class;
      };
      const Tie ties = tie();
      const auto order = [&](BlockId id) {
        return std::tuple(table_[id].arena, table_[id].size, ties(table_, id), id);
      };
      blocks = std::exchange(latest.blocks, {});
      std::erase_if(blocks, is_gone);
      std::ranges::sort(blocks, {}, order);
      const auto twice = std::ranges::unique(blocks);
      blocks.erase(twice.begin(), twice.end());
      return blocks;
    }
    for (const Arena& arena : arenas) {
      const std::vector<BlockId> of_arena = arena.free.ordered(size);
      blocks.insert(blocks.end(), of_arena.begin(), of_arena.end());
    }
    latest.known = blocks.size() + arenas.size() > most_to_visit;
    notes_free_ = notes_free_ || latest.known;
    return blocks;
  }

  BlockTable& table() { return table_; }
  const BlockTable& table() const { return table_; }
  HeapUse& use() { return use_; }
  const HeapUse& use() const { return use_; }

  [[gnu::always_inline]] void put_free(BlockId id) {
    Block& block = table_[id];
    block.state = BlockState::free;
    Arena& arena = arenas_[block.arena];
    arena.free.insert(id);
    use_.free += block.size;
    largest_.set(arena.number, arena.free.largest());
    if (notes_free_) [[unlikely]]
      note_free(id, arena);
  }

  [[gnu::always_inline]] void take_out(BlockId id) {
    Arena& arena = arenas_[table_[id].arena];
    arena.free.erase(id);
    count_out(arena, table_[id].size);
  }
  /// Takes out the result of a search in the arena.
  [[gnu::always_inline]] void take_out(Arena& arena, const typename FitIndex<Tie>::Found& found) {
    arena.free.erase(found);
    count_out(arena, table_[found.block].size);
  }

  Bytes largest_free() const { return largest_.largest(); }

  /// The free block at an address at which a pool is laid out again (Prepared::restored_segments), or none.
  BlockId free_at(Address address) const {
    const auto latest = latest_at_.find(address.value);
    if (latest == latest_at_.end() || latest->second == BlockId::none) return BlockId::none;
    const Block& block = table_[latest->second];
    return block.state == BlockState::free && block.address == address ? latest->second : BlockId::none;
  }

  /// Merges a block with its free neighbours. Returns their number.
  [[gnu::always_inline]] std::uint64_t merge_with_free_neighbours(BlockId id) {
    return table_.absorb_free_neighbours(id, [&](BlockId neighbour) { take_out(neighbour); });
  }

  /// The allocator numbers blocks as it creates them, whether from new memory or cut off another block.
  void note_made(BlockId id) {
    if constexpr (numbers_blocks) ages_.renew(id);
  }
  /// A block was cut in two; `front`, which the table created, is the allocator's original one.
  void note_made_behind(BlockId front, BlockId rest) {
    if constexpr (numbers_blocks) {
      ages_.inherit(front, rest);
      ages_.renew(rest);
    }
  }

  /// A block's number; 0 where the allocator doesn't number blocks.
  std::uint64_t made(BlockId id) const {
    if constexpr (numbers_blocks)
      return ages_.since(id);
    else
      return 0;
  }

  void count_search(const Arena& arena) {
    if (counts_searches_) ++searches_[arena.size_class];
  }

  /// The free block had not been used for that many searches before the first one.
  void make_unused_for(BlockId id, std::uint64_t searches) {
    if (counts_searches_)
      freed_at_[index(id)] -= searches;  // the difference that age() takes is right also if it wraps
  }

  /// The number of searches in its pool and size class since a block became free.
  std::uint64_t age(BlockId id) const { return searches_[arena_of(table_[id]).size_class] - freed_at_[index(id)]; }

 private:
  static constexpr bool numbers_blocks = std::is_same_v<Tie, OldestFirst>;
  struct NoAges {};

  Tie tie() const {
    if constexpr (numbers_blocks)
      return Tie(ages_);
    else
      return Tie();
  }

  struct Range {
    std::size_t first = 0, count = 0;
  };

  /// What became free since the last call of newly_free(), if that is known.
  struct NewlyFree {
    bool known = false;
    std::vector<BlockId> blocks;
  };
  static constexpr std::size_t most_to_visit = 256, most_noted = 4096;

  void build(const Prepared& heap) {
    std::map<std::tuple<PoolId, bool, std::uint64_t>, std::uint32_t> by_key;
    std::map<std::uint64_t, StreamId> stream_of;
    std::set<PoolId> no_split;
    for (const PoolStream& pool_stream : heap.pool_streams) {
      stream_of[pool_stream.stream_handle] = pool_stream.stream;
      if (pool_stream.no_split) no_split.insert(pool_stream.pool);
      for (const bool small : {false, true}) by_key[{pool_stream.pool, small, pool_stream.stream_handle}] = 0;
    }
    for (auto& [key, number] : by_key) {
      const auto& [pool, small, stream] = key;
      number = static_cast<std::uint32_t>(arenas_.size());
      const auto [size_class, is_new] = classes_.try_emplace({pool, small}, Range{.first = number});
      ++size_class->second.count;
      if (is_new) {
        searches_.push_back(0);
        newly_free_.emplace_back();
      }
      arenas_.push_back({.free = FitIndex<Tie>(table_, unit_log2_, tie()),
                         .number = number,
                         .size_class = static_cast<std::uint32_t>(searches_.size() - 1),
                         .small = small,
                         .splits = no_split.contains(pool) ? TorchSplits::nothing
                                   : small                 ? TorchSplits::small
                                                           : TorchSplits::large,
                         .pool = pool,
                         .stream = stream_of[stream],
                         .stream_handle = stream});
    }
    largest_.resize(arenas_.size());
    for (const PoolStream& pool_stream : heap.pool_streams)
      arenas_of_pool_stream_.push_back({&arenas_[by_key[{pool_stream.pool, false, pool_stream.stream_handle}]],
                                        &arenas_[by_key[{pool_stream.pool, true, pool_stream.stream_handle}]]});
  }

  [[gnu::always_inline]] void count_out(const Arena& arena, Bytes size) {
    use_.free -= size;
    largest_.set(arena.number, arena.free.largest());
  }

  [[gnu::noinline]] void note_free(BlockId id, const Arena& arena) {
    if (const auto latest = latest_at_.find(table_[id].address.value); latest != latest_at_.end()) latest->second = id;
    if (NewlyFree& latest = newly_free_[arena.size_class]; latest.known) {
      latest.blocks.push_back(id);
      if (latest.blocks.size() > most_noted) latest = {};
    }
    if (!counts_searches_) return;
    if (freed_at_.size() < table_.limit()) freed_at_.resize(table_.limit());
    freed_at_[index(id)] = searches_[arena.size_class];
  }

  bool counts_searches_;
  bool notes_free_ = false;  // looks at every block that becomes free
  unsigned unit_log2_;
  BlockTable table_;
  [[no_unique_address]] std::conditional_t<numbers_blocks, BlockAges, NoAges> ages_;
  HeapUse use_;
  Maxima largest_;                                            // free block, by arena
  std::vector<Arena> arenas_;                                 // by pool, size class and stream handle
  std::vector<std::array<Arena*, 2>> arenas_of_pool_stream_;  // large, small
  std::map<std::pair<PoolId, bool>, Range> classes_;
  std::vector<std::uint64_t> searches_;                   // by size class
  std::vector<NewlyFree> newly_free_;                     // by size class
  std::vector<std::uint64_t> freed_at_;                   // by block: the number of searches when it became free
  std::unordered_map<std::uint64_t, BlockId> latest_at_;  // by address: what became free there last
};

}  // namespace memreel
