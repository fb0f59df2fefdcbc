// SPDX-License-Identifier: Apache-2.0
// One thing that happened to memory.
#pragma once

#include <optional>
#include <string>
#include <string_view>

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
  alloc_failed = 8,     // a request for `size` bytes failed; `value`: see free_when_failed()
  pool_begin = 9,       // from here on allocations of this origin's thread or stream go to its pool
  pool_end = 10,        // the origin's pool is destroyed: it grows no more, and its unused memory may be released
  sync = 11,            // the host waited, or an event edge; `value`: see sync_* below
  empty_cache = 12,     // the program released unused memory: of the origin's pool; the default pool stands for all
  mark = 13,            // `value` = MarkId
  settings = 14,        // `value` = SettingsId
  memory_info = 15,     // sample of the device: `size` = used, `value` = free
  pool_created = 16,    // the origin's heap is a pool that the program made now, perhaps under an earlier one's name
  pool_destroyed = 17,  // ... and destroys now: the frees of what is live in it, and its segments', follow directly
};
inline constexpr std::size_t event_kind_count = 18;

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
  return kind == EventKind::alloc_failed ||
         (kind >= EventKind::sync && kind <= EventKind::memory_info && kind != EventKind::empty_cache);
}

/// `value` of a `sync` event: the host waited for the origin's stream, for the whole device, or the origin's stream
/// was made to wait for the stream `value - sync_edge` (a StreamId).
inline constexpr std::uint64_t sync_stream = 0;
inline constexpr std::uint64_t sync_device = 1;
inline constexpr std::uint64_t sync_edge = 2;

/// `value` of an `alloc_failed` event: the bytes that the device said were free, 1 if it had none, 0 if it said
/// nothing; `refused_at_maximum` if the pool said that it could not grow, at a maximum of its own if it has one.
inline constexpr std::uint64_t refused_at_maximum = (std::uint64_t{1} << 60U) - 1;  // no device has as much
constexpr std::uint64_t free_when_failed_value(Bytes free) { return free.count == 0 ? 1 : free.count; }
constexpr std::optional<Bytes> free_when_failed(std::uint64_t value) {
  if (value == 0 || value == refused_at_maximum) return std::nullopt;
  return Bytes{value == 1 ? 0 : value};
}

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

// A set of event kinds.

class EventKinds {
 public:
  constexpr EventKinds() = default;
  constexpr explicit EventKinds(EventKind kind) { add(kind); }
  /// From a file: bit n is kind n. Unknown kinds are dropped.
  static constexpr EventKinds of_bits(std::uint64_t bits) {
    EventKinds kinds;
    kinds.bits_ = static_cast<std::uint32_t>(bits & ((1U << event_kind_count) - 1U));
    return kinds;
  }

  constexpr void add(EventKind kind) { bits_ |= bit(kind); }
  constexpr bool contains(EventKind kind) const { return (bits_ & bit(kind)) != 0; }
  constexpr bool empty() const { return bits_ == 0; }
  constexpr std::uint32_t bits() const { return bits_; }

  /// "alloc, free_requested".
  std::string text() const {
    std::string names;
    for (std::size_t i = 0; i < event_kind_count; ++i)
      if (const auto kind = static_cast<EventKind>(i); contains(kind))
        names += (names.empty() ? "" : ", ") + std::string(name_of(kind));
    return names;
  }

  friend constexpr EventKinds operator|(EventKinds a, EventKinds b) { return of_bits(a.bits_ | b.bits_); }
  friend bool operator==(const EventKinds&, const EventKinds&) = default;

 private:
  static constexpr std::uint32_t bit(EventKind kind) { return 1U << static_cast<unsigned>(kind); }

  std::uint32_t bits_ = 0;
};

}  // namespace memreel
