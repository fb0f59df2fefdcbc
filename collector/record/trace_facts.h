// What the launcher reports about a finished trace.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>

#include "formats/model/result.h"
#include "formats/model/units.h"

namespace memreel::record {

struct DeviceFacts {
  Bytes peak;  // most bytes held from the driver at once
  Bytes end;   // bytes held at the end
  std::uint64_t failures = 0;
};

struct TraceFacts {
  std::map<std::int32_t, DeviceFacts> devices;  // by ordinal; without host memory
  std::uint64_t events = 0;
  std::uint64_t folded = 0;  // older events that a flight recorder folded into sums
  std::uint64_t lost = 0;
  Bytes file_size;
  bool complete = false;  // it has its footer: the program was not killed
};

/// Reads a whole trace, block by block. Errors: it can't be read, or is not a trace.
Result<TraceFacts> facts_of(const std::filesystem::path& trace);

}  // namespace memreel::record
