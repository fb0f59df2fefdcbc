// SPDX-License-Identifier: Apache-2.0
// Reads one XPlane: a timeline per thread, with events that refer to their kind and statistics by number.
//
// Field numbers: xplane.proto of openxla/xla (xla/tsl/profiler/protobuf).
#pragma once

#include <map>

#include "formats/model/units.h"
#include "formats/writer/trace_output.h"

namespace memreel::xplane {

// The memory data of an XPlane profile, in the importer's own terms.

/// A request that an allocator served, or memory returned to it.
struct MemoryEvent {
  std::int64_t time_ns = 0;     // since the profile began, or the epoch
  std::uint32_t allocator = 0;  // number in Recording::allocators
  bool is_free = false;
  ThreadId thread = ThreadId::unknown;
  StackId stack = StackId::none;
  Address address;
  Bytes requested;           // in frees too
  Bytes allocated;           // the allocated chunk
  Bytes in_use;              // by the allocator, after the event
  Bytes available;           // up to the allocator's limit
  double fragmentation = 0;  // the allocator's own metric, to six digits; NaN if nothing was free

  /// In use before the event, modulo 2^64.
  Bytes in_use_before() const { return is_free ? in_use + allocated : in_use - allocated; }
};

struct MarkEvent {
  std::int64_t time_ns = 0;
  ThreadId thread = ThreadId::unknown;
  MarkId mark = MarkId::none;
};

struct Recording {
  std::map<std::string, std::uint32_t, std::less<>> allocators;  // numbered in order of appearance
  std::vector<MemoryEvent> events;                               // by time
  std::vector<MarkEvent> marks;                                  // by time
  std::optional<std::int64_t> start_ns;                          // since the epoch
  std::uint64_t failures = 0;    // requests that were never served; their sizes are not recorded
  std::uint64_t incomplete = 0;  // memory events that lack an address or an allocator
};

// The names in XPlane profiles that memreel recognises.

enum class Stat : std::uint8_t {
  other,
  allocator_name,
  address,
  requested_bytes,
  allocation_bytes,
  bytes_allocated,
  bytes_available,
  fragmentation,
  operation,
  region_type,
  data_type,
  shape,
  step_number,
  profile_start_time,
};

Stat stat_of(std::string_view name);

enum class Kind : std::uint8_t { other, allocation, deallocation, retry };

Kind kind_of(std::string_view name);

/// The frame for an event: the profiler names Python calls like "$array.py:289 __iter__"; other names are used
/// verbatim.
Frame frame_of(std::string_view name, ImportOutput& writer);

/// Adds the plane's memory data. Stacks are built from the enclosing events on the same timeline: Python calls, if the
/// profiler recorded them, and the framework's own. Throws protozero::exception if `plane` is not a valid message.
void read_plane(std::string_view plane, Recording& recording, ImportOutput& writer);

}  // namespace memreel::xplane
