#include "formats/import/torch/snapshot.h"

namespace memreel::torch {

PlaceId Places::id(const Place& place) {
  // Neighbours in a history mostly share their place.
  if (!places_.empty() && (*this)[latest_] == place) return latest_;
  const auto [found, is_new] = ids_.try_emplace(place, static_cast<PlaceId>(places_.size()));
  if (is_new) places_.push_back(place);
  latest_ = found->second;
  return latest_;
}

std::size_t Places::Hash::operator()(const Place& place) const {
  constexpr std::uint64_t odd = 0x9E37'79B9'7F4A'7C15;  // 2^64 / golden ratio
  std::uint64_t hash = place.stream * odd;
  if (place.pool) hash = ((hash ^ place.pool->high) * odd ^ (place.pool->low + 1)) * odd;
  return hash ^ hash >> 32U;
}

}  // namespace memreel::torch
