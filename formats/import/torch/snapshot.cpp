#include "formats/import/torch/snapshot.h"

namespace memreel::torch {

PoolStreamId PoolStreams::id(const PoolStream& pool_stream) {
  // Consecutive entries usually share pool and stream.
  if (!pool_streams_.empty() && (*this)[latest_] == pool_stream) return latest_;
  const auto [found, is_new] = ids_.try_emplace(pool_stream, static_cast<PoolStreamId>(pool_streams_.size()));
  if (is_new) pool_streams_.push_back(pool_stream);
  latest_ = found->second;
  return latest_;
}

std::size_t PoolStreams::Hash::operator()(const PoolStream& pool_stream) const {
  constexpr std::uint64_t odd = 0x9E37'79B9'7F4A'7C15;  // 2^64 / golden ratio
  std::uint64_t hash = pool_stream.stream * odd;
  if (pool_stream.pool) hash = ((hash ^ pool_stream.pool->high) * odd ^ (pool_stream.pool->low + 1)) * odd;
  return hash ^ hash >> 32U;
}

}  // namespace memreel::torch
