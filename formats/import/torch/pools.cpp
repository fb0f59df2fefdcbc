#include "formats/import/torch/pools.h"

#include <algorithm>

#include "formats/import/torch/ranges.h"

namespace memreel::torch {
namespace {

bool is_private(const PoolStreams& pool_streams, PoolStreamId pool_stream) {
  return pool_streams[pool_stream].pool.value_or(PoolKey{}) != PoolKey{};
}

/// The pool of an unmapped range: that of a neighbour in the same address reservation.
PoolKey pool_of_unmapped(const RangeMap<PoolStreamId>& known, const PoolStreams& pool_streams, const Entry& entry) {
  const Range range = Range::of(entry.address, entry.size);
  for (const std::uint64_t neighbour : {range.begin - 1, range.end}) {
    const auto item = known.at(neighbour);
    if (item && pool_streams[item->value].stream == pool_streams[entry.pool_stream()].stream)
      return pool_streams[item->value].pool.value_or(PoolKey{});
  }
  return {};
}

}  // namespace

void infer_pools(DeviceHistory& history, PoolStreams& pool_streams) {
  // Entries without a pool count as the default pool's, so this is only needed if there is another pool.
  const auto& segments = history.segments;
  if (std::none_of(segments.begin(), segments.end(),
                   [&](const Segment& s) { return is_private(pool_streams, s.pool_stream); }))
    return;
  RangeMap<PoolStreamId> known;
  for (const Segment& segment : segments)
    known.set(Range::of(segment.address.value, segment.size.count), segment.pool_stream);
  // Backwards, because the end is what is known.
  for (std::size_t i = history.entries.count(); i-- > 0;) {
    Entry& entry = history.entries[i];
    const Action action = entry.action();
    if (!has_address(action)) continue;
    PoolStream pool_stream = pool_streams[entry.pool_stream()];
    if (!pool_stream.pool) {
      if (action == Action::segment_unmap) {
        pool_stream.pool = pool_of_unmapped(known, pool_streams, entry);
      } else if (action != Action::segment_free) {
        const auto item = known.at(entry.address);
        if (item) pool_stream.pool = pool_streams[item->value].pool;
      }
      entry.set(action, pool_streams.id(pool_stream));
    }
    if (releases_segment(action)) known.set(Range::of(entry.address, entry.size), entry.pool_stream());
  }
}

}  // namespace memreel::torch
