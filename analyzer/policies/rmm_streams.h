// The common part of RMM's stream-ordered resources: a list of free blocks per stream, and the order in which a request
// of one stream searches them.
//
// Source: rmm/mr/detail/stream_ordered_memory_resource.hpp of RMM 26. (In 2020, 0.17 still merged a list on its first
// hit.)
//
// - The default stream has two names, 0 and 1 (cudaStreamLegacy), and one list.
// - A request searches the list of its own stream; then each other one, where its stream waits for the event of the
//   last free, and where the remainder of a cut block stays; then it merges the others into its own, one by one, and
//   searches again after each; then the resource grows.
// - RMM visits the other lists in the order of their event handles, which differs from run to run: `stream_order`, the
//   handles of streams separated by slashes, "0/3/1/2". `first_use`, and the order of streams that it does not name:
//   the order in which the streams were first used, an assumption.
// - The thread-local lists of the per-thread default stream (2) are one list here: a history does not say how many
//   threads RMM would have seen on it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "analyzer/engine/policy_spec.h"
#include "analyzer/engine/prepared.h"
#include "analyzer/heap/block_table.h"
#include "analyzer/heap/maxima.h"

namespace memreel {

/// Stream handles, in the order in which their lists are visited.
using RmmStreamOrder = std::vector<std::uint64_t>;

/// Parses the parameter stream_order. Errors: neither first_use nor up to 64 handles.
Result<RmmStreamOrder> rmm_stream_order(const PolicySpec& spec);

/// Numbers the streams of a heap in the order in which they are visited; RMM ignores pools.
class RmmStreams {
 public:
  /// `has_initial`: the resource adds memory to the default stream's list before the program begins.
  RmmStreams(const std::vector<PoolStream>& pool_streams, const RmmStreamOrder& order, bool has_initial) {
    std::map<std::uint64_t, std::uint32_t> numbers;
    const auto number_of = [&](std::uint64_t handle) {
      constexpr std::uint64_t legacy = 1;
      return numbers.try_emplace(handle == 0 ? legacy : handle, static_cast<std::uint32_t>(numbers.size()))
          .first->second;
    };
    for (const std::uint64_t handle : order) number_of(handle);
    if (has_initial) default_ = number_of(0);
    for (const PoolStream& pool_stream : pool_streams) of_pool_stream_.push_back(number_of(pool_stream.stream_handle));
    count_ = static_cast<std::uint32_t>(numbers.size());
  }

  std::uint32_t operator[](std::uint32_t pool_stream) const { return of_pool_stream_[pool_stream]; }
  std::uint32_t count() const { return count_; }
  /// The default stream's number, if there is initial memory.
  std::uint32_t default_stream() const { return default_; }

 private:
  std::vector<std::uint32_t> of_pool_stream_;
  std::uint32_t count_ = 0, default_ = 0;
};

/// Looks for a block of `size` bytes, not 0, for a request of stream `own`, one of `count`. `find(stream)` searches the
/// list of a stream and returns a block or none; `merge(own, other)` moves the contents of another list into its own.
/// `largest`: the largest block of each stream's list. Streams without any are passed over: there may be a hundred
/// thousand.
template <class Find, class Merge>
BlockId find_in_streams(std::uint32_t own, std::uint32_t count, Bytes size, const Maxima& largest, const Find& find,
                        const Merge& merge) {
  if (const BlockId block = find(own); block != BlockId::none) [[likely]]
    return block;
  for (std::size_t other = largest.first(size); other < count; other = largest.first(size, other + 1)) {
    if (other == own) continue;
    if (const BlockId block = find(static_cast<std::uint32_t>(other)); block != BlockId::none) return block;
  }
  for (std::size_t other = largest.first(1_B); other < count; other = largest.first(1_B, other + 1)) {
    if (other == own) continue;
    merge(own, static_cast<std::uint32_t>(other));
    if (const BlockId block = find(own); block != BlockId::none) return block;
  }
  return BlockId::none;
}

}  // namespace memreel
