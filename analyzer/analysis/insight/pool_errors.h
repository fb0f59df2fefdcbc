// SPDX-License-Identifier: Apache-2.0
// Errors in the use of the program's own pools, as compute-sanitizer's memcheck and RMM's debug adaptors report them
// for the driver's and RMM's memory: each with its address and the two calls that contradict each other.
#pragma once

#include <array>

#include "analyzer/describe/fields.h"
#include "formats/model/trace.h"

namespace memreel {

enum class PoolErrorKind : std::uint8_t {
  double_free,        // of what was freed before and not allocated since
  invalid_free,       // of what was never allocated in the pool
  overlap,            // an allocation overlaps a live one
  outside_segments,   // an allocation is not within the pool's segments
  segment_in_use,     // a segment is removed in which something is live
  use_after_destroy,  // of the pool
};
inline constexpr std::size_t pool_error_kinds = 6;

/// "double free".
std::string_view name_of(PoolErrorKind kind);

/// The same error of the same two calls, however often.
struct PoolError {
  PoolErrorKind kind = PoolErrorKind::double_free;
  HeapId heap = HeapId::none;
  std::uint64_t count = 0;
  // Of the first:
  std::uint64_t event = 0;
  StackId stack = StackId::none;
  Address address;
  Bytes size;                           // 0: not recorded
  StackId contradicts = StackId::none;  // the first free, the live allocation, the destruction; none: there is none
};

template <>
struct FieldsOf<PoolError> {
  static const std::array<ResultField<PoolError>, 7> all;
};

/// The heaps whose creation or destruction the program reported. Of other heaps nothing is judged.
std::vector<HeapId> own_pools(const Trace& trace);

/// By heap, in order of their first events. Addresses of a pool without segments may be any numbers: overlaps are
/// judged only where there are segments. Invalid frees are not reported where the recording lacks allocations: it began
/// late, or lost events. Time: n log n, memory: n, in the events of own pools.
std::vector<PoolError> pool_errors(const Trace& trace);

/// "0x1000 was freed at a.cpp:9, and before at b.cpp:7", of the first.
std::string evidence_of(const Tables& tables, const PoolError& error);

}  // namespace memreel
