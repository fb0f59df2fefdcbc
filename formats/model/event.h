// One thing that happened to memory.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "formats/model/ids.h"
#include "formats/model/units.h"

namespace memreel {

/// The numbers are part of the file format (formats/proto/memreel/trace.proto): never reuse one.
enum class EventKind : std::uint8_t {
  unknown = 0,         // a kind unknown to this version; skipped and counted by the reader
  alloc = 1,           // the program got `size` requested bytes at `address`
  free_requested = 2,  // the program freed `allocation`
  free_completed = 3,  // the device is done with it: the block became reusable
  segment_alloc = 4,   // a pool got `size` bytes at `address` from its parent heap (cudaMalloc)
  segment_free = 5,
  segment_map = 6,  // a pool mapped `size` bytes of physical memory at `address` (cuMemMap)
  segment_unmap = 7,
  alloc_failed = 8,  // a request for `size` bytes failed; `value` = bytes the device said were free, 0 if unknown
  pool_begin = 9,    // from here on allocations of this origin's thread or stream go to its pool
  pool_end = 10,     // the origin's pool is destroyed: it grows no more, and its unused memory may be released
  sync = 11,         // the host waited, or an event edge; `value`: see sync_* below
  empty_cache = 12,  // the program released unused memory: of the origin's pool; the default pool stands for all
  mark = 13,         // `value` = MarkId
  settings = 14,     // `value` = SettingsId
  memory_info = 15,  // sample of the device: `size` = used, `value` = free
};
inline constexpr std::size_t event_kind_count = 16;

/// The name used in reports, exports and JSON, e.g. "free_requested".
std::string_view name_of(EventKind kind);

constexpr bool has_address(EventKind kind) { return kind >= EventKind::alloc && kind <= EventKind::segment_unmap; }
constexpr bool is_free(EventKind kind) {
  return kind == EventKind::free_requested || kind == EventKind::free_completed;
}
constexpr bool is_segment(EventKind kind) {
  return kind >= EventKind::segment_alloc && kind <= EventKind::segment_unmap;
}
constexpr bool has_size(EventKind kind) {
  return has_address(kind) || kind == EventKind::alloc_failed || kind == EventKind::memory_info;
}
constexpr bool has_value(EventKind kind) {
  return kind == EventKind::alloc_failed || (kind >= EventKind::sync && kind != EventKind::empty_cache);
}

/// `value` of a `sync` event: the host waited for the origin's stream, for the whole device, or the origin's stream
/// was made to wait for the stream `value - sync_edge` (a StreamId).
inline constexpr std::uint64_t sync_stream = 0;
inline constexpr std::uint64_t sync_device = 1;
inline constexpr std::uint64_t sync_edge = 2;

/// A complete event. Fields that its kind does not have are zero (`allocation`: none).
///
/// For the two kinds of free, `allocation` refers to the `alloc` event, whose `address` and `size` are repeated. If the
/// allocation happened before the recording began (`allocation` is none), the free's own are used.
struct Event {
  EventKind kind = EventKind::unknown;
  OriginId origin = OriginId::none;
  StackId stack = StackId::none;
  AllocationId allocation = AllocationId::none;
  Nanoseconds time{};
  Address address{};
  Bytes size{};
  std::uint64_t value = 0;

  friend bool operator==(const Event&, const Event&) = default;
};

}  // namespace memreel
