// The agent's report on its recording: the answer to "status" (message.h), written and parsed here.
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
  Bytes live, peak;  // requested and not freed, and its highest value since recording began
  Bytes reserved;    // by a pool; for a framework that does not report its segments, all that the driver gave out
  std::string name;

  friend bool operator==(const HeapStatus&, const HeapStatus&) = default;
};

struct DeviceStatus {
  std::int32_t device = 0;
  Bytes used, free;  // by all programs together, when last sampled

  friend bool operator==(const DeviceStatus&, const DeviceStatus&) = default;
};

struct ProcessStatus {
  bool recording = false;
  std::string trace;   // absolute path
  std::string source;  // where driver calls are observed: "cupti" or "interpose"
  std::string rank;    // empty: the process has none
  std::uint64_t events = 0, lost = 0;
  std::vector<HeapStatus> heaps;  // in order of first use, at most 256
  std::vector<DeviceStatus> devices;

  friend bool operator==(const ProcessStatus&, const ProcessStatus&) = default;
};

Message to_message(const ProcessStatus& status);

/// Skips missing, malformed and unknown fields: the answer may come from another version, or another program.
ProcessStatus process_status(const Message& answer);

}  // namespace memreel::attach
