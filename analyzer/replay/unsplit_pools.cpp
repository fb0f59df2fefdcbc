#include "analyzer/replay/unsplit_pools.h"

#include <algorithm>
#include <utility>

namespace memreel {

void UnsplitPools::taken(const Origin& origin, Address address, Bytes size) {
  if (origin.pool == PoolId::default_pool) return;
  Pool& pool = pools_[origin.pool];
  if (!pool.splits) pool.pieces[address] = {.size = size, .stream = origin.stream};
}

void UnsplitPools::given_back(const Origin& origin, Address address, Bytes size) {
  const auto found = pools_.find(origin.pool);
  if (found == pools_.end()) return;
  auto& pieces = found->second.pieces;
  for (auto piece = pieces.lower_bound(address); piece != pieces.end() && piece->first < address + size;)
    piece = pieces.erase(piece);
}

void UnsplitPools::allocated(const Origin& origin, std::uint32_t slot, Address address, Bytes requested) {
  if (origin.pool == PoolId::default_pool) return;
  Pool& pool = pools_[origin.pool];
  if (pool.splits) return;
  const auto piece = pool.pieces.find(address);
  if (piece == pool.pieces.end()) {
    pool = {.splits = true};
    return;
  }
  const Bytes rounded = settings_.round(requested);
  pool.passed_over = pool.passed_over || passes_over(pool, address, piece->second, rounded);
  piece->second.used = rounded;
  piece->second.fresh = false;
  live_[slot] = {origin.pool, address};
}

void UnsplitPools::completed(std::uint32_t slot) {
  if (live_.empty()) return;
  const auto live = live_.find(slot);
  if (live == live_.end()) return;
  auto& pieces = pools_[live->second.pool].pieces;
  if (const auto piece = pieces.find(live->second.address); piece != pieces.end()) piece->second.used = {};
  live_.erase(live);
}

bool UnsplitPools::contains(PoolId pool) const {
  const auto found = pools_.find(pool);
  return found != pools_.end() && !found->second.splits && found->second.passed_over;
}

bool UnsplitPools::passes_over(const Pool& pool, Address address, const Piece& piece, Bytes rounded) const {
  const bool small = TorchSettings::is_small(rounded);
  const Bytes least = settings_.least_rest(small);
  // For these larger ones, more than that decides which are handed out.
  if (rounded >= settings_.max_split_size) return false;
  return std::ranges::any_of(pool.pieces, [&](const auto& item) {
    const auto& [other_address, other] = item;
    if (other.used == 0_B || other.stream != piece.stream || TorchSettings::is_small(other.used) != small) return false;
    if (other.used >= std::min(other.size, settings_.max_split_size)) return false;
    const Bytes rest = other.size - other.used;
    if (rest < std::max(least, rounded) || rest >= settings_.max_split_size) return false;
    return piece.fresh ||
           (!settings_.expandable && std::pair(rest, other_address + other.used) < std::pair(piece.size, address));
  });
}

}  // namespace memreel
