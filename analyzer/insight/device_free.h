// How much of a device was free at an instant, estimated between its samples.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "formats/model/trace.h"

namespace memreel {

/// The memory of a device, as reported by the device.
struct DeviceFree {
  Bytes total;      // the whole device
  Bytes free;       // at the last sample, plus what the program released since, minus what it got
  Nanoseconds age;  // of the sample
};

/// For each of `instants` (events, ascending): the state of its device before the event. If the first sample is later,
/// that one. None if the device has no samples.
std::vector<std::optional<DeviceFree>> device_free_at(const Trace& trace, std::span<const std::uint32_t> instants);

}  // namespace memreel
