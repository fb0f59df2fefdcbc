// What the library in a process says of its recording: the answer to "status" (message.h), made and read in one place.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "collector/attach/message.h"
#include "formats/model/tables.h"
#include "formats/model/units.h"

namespace memreel::attach {

struct HeapStatus {
  std::int32_t device = 0;  // CUDA ordinal; -1: the host
  Level level = Level::driver;
  Bytes live, peak;  // requested and not freed, and the most of it since recording began
  Bytes reserved;    // by a pool; of a framework that does not tell of its segments, all that the driver gave out
  std::string name;

  friend bool operator==(const HeapStatus&, const HeapStatus&) = default;
};

struct DeviceStatus {
  std::int32_t device = 0;
  Bytes used, free;  // all programs taken together, when it was last asked

  friend bool operator==(const DeviceStatus&, const DeviceStatus&) = default;
};

struct ProcessStatus {
  bool recording = false;
  std::string trace;   // absolute path
  std::string source;  // where driver calls are seen: "cupti" or "interpose"
  std::string rank;    // empty: the process has none
  std::uint64_t events = 0, lost = 0;
  std::vector<HeapStatus> heaps;  // in order of first use, at most 256
  std::vector<DeviceStatus> devices;

  friend bool operator==(const ProcessStatus&, const ProcessStatus&) = default;
};

Message to_message(const ProcessStatus& status);

/// Fields that are missing, malformed or unknown are left out: the answer may be another version's, or another
/// program's.
ProcessStatus process_status(const Message& answer);

}  // namespace memreel::attach
