// The names in XPlane profiles that memreel recognises.
#pragma once

#include <cstdint>
#include <string_view>

#include "formats/writer/trace_writer.h"

namespace memreel::xplane {

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
Frame frame_of(std::string_view name, TraceWriter& writer);

}  // namespace memreel::xplane
