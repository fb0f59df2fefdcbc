// What an XPlane profile says about memory, in the importer's own terms.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/model/ids.h"
#include "formats/model/units.h"

namespace memreel::xplane {

/// A request that an allocator served, or memory that it was given back.
struct MemoryEvent {
  std::int64_t time_ns = 0;     // since the profile began, or the epoch
  std::uint32_t allocator = 0;  // number in Recording::allocators
  bool is_free = false;
  ThreadId thread = ThreadId::unknown;
  StackId stack = StackId::none;
  Address address;
  Bytes requested;           // in frees too
  Bytes allocated;           // the chunk that was handed out
  Bytes in_use;              // of the allocator, after the event
  Bytes available;           // what is left of the allocator's limit
  double fragmentation = 0;  // the allocator's own metric, to six digits; not a number when nothing was free

  /// In use before the event, modulo 2^64.
  Bytes in_use_before() const { return is_free ? in_use + allocated : in_use - allocated; }
};

struct MarkEvent {
  std::int64_t time_ns = 0;
  ThreadId thread = ThreadId::unknown;
  MarkId mark = MarkId::none;
};

struct Recording {
  std::map<std::string, std::uint32_t, std::less<>> allocators;  // numbered as they appear
  std::vector<MemoryEvent> events;                               // by time
  std::vector<MarkEvent> marks;                                  // by time
  std::optional<std::int64_t> start_ns;                          // since the epoch
  std::uint64_t failures = 0;    // requests that were never served; their sizes are not recorded
  std::uint64_t incomplete = 0;  // memory events that lack an address or an allocator
};

}  // namespace memreel::xplane
