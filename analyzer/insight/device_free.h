// How much of a device was free at an instant, between the samples that were taken of it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "formats/model/trace.h"

namespace memreel {

/// What a device had, by its own account.
struct DeviceFree {
  Bytes total;      // in all
  Bytes free;       // at the last sample, and what the program gave back since, less what it got
  Nanoseconds age;  // of the sample
};

/// For each of `instants` (events, ascending): the state of its device before the event. Where the first sample is
/// later, that one. None without samples of the device.
std::vector<std::optional<DeviceFree>> device_free_at(const Trace& trace, std::span<const std::uint32_t> instants);

}  // namespace memreel
