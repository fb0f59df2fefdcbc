#include "formats/import/torch/pools.h"

#include <algorithm>

#include "formats/import/torch/ranges.h"

namespace memreel::torch {
namespace {

bool is_private(const Places& places, PlaceId place) { return places[place].pool.value_or(PoolKey{}) != PoolKey{}; }

/// The pool of a range that was unmapped: that of a neighbour in the same address reservation.
PoolKey pool_of_unmapped(const RangeMap<PlaceId>& known, const Places& places, const Entry& entry) {
  const Range range = Range::of(entry.address, entry.size);
  for (const std::uint64_t neighbour : {range.begin - 1, range.end}) {
    const auto item = known.at(neighbour);
    if (item && places[item->value].stream == places[entry.place()].stream)
      return places[item->value].pool.value_or(PoolKey{});
  }
  return {};
}

}  // namespace

void infer_pools(DeviceHistory& history, Places& places) {
  // Entries without a pool count as the default pool's, so there is something to do only where there is another.
  const auto& segments = history.segments;
  if (std::none_of(segments.begin(), segments.end(), [&](const Segment& s) { return is_private(places, s.place); }))
    return;
  RangeMap<PlaceId> known;
  for (const Segment& segment : segments)
    known.set(Range::of(segment.address.value, segment.size.count), segment.place);
  // Backwards, because it is the end that is known.
  for (std::size_t i = history.entries.count(); i-- > 0;) {
    Entry& entry = history.entries[i];
    const Action action = entry.action();
    if (!has_address(action)) continue;
    Place place = places[entry.place()];
    if (!place.pool) {
      if (action == Action::segment_unmap) {
        place.pool = pool_of_unmapped(known, places, entry);
      } else if (action != Action::segment_free) {
        const auto item = known.at(entry.address);
        if (item) place.pool = places[item->value].pool;
      }
      entry.set(action, places.id(place));
    }
    if (releases_segment(action)) known.set(Range::of(entry.address, entry.size), entry.place());
  }
}

}  // namespace memreel::torch
