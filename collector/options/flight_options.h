// SPDX-License-Identifier: Apache-2.0
// Options of the flight recorder (docs/flight-recorder.md): what it keeps, and when it writes a dump.
#pragma once

#include <csignal>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "formats/model/result.h"
#include "formats/model/units.h"

namespace memreel::agent {

struct FlightOptions {
  static constexpr Bytes least_size = 1_MiB;

  Bytes size;                       // of the recording on disk; 0: not a flight recorder
  std::optional<Nanoseconds> span;  // how long events are kept, if `size` allows; none: as long as it allows

  friend bool operator==(const FlightOptions&, const FlightOptions&) = default;
};

/// When to write a dump, besides on failures.
struct DumpOptions {
  std::optional<double> used;  // trigger when this share of a device's memory is used: above 0, at most 1
  struct Growth {
    Bytes bytes;
    Nanoseconds time{};
    friend bool operator==(const Growth&, const Growth&) = default;
  };
  std::optional<Growth> growth;  // trigger on growth of the memory used on a device
  int signal = SIGUSR2;          // 0: none
  std::uint32_t kept = 8;        // number of dumps kept; the oldest is removed for a new one

  friend bool operator==(const DumpOptions&, const DumpOptions&) = default;
};

/// "256MiB", "10min", or both with a comma; the size defaults to 256 MiB. "" is no flight recorder.
Result<FlightOptions> parse_flight(std::string_view text);
std::string text_of(const FlightOptions& options);

/// "95%", "+2GiB/min", or both with a comma: sets `used` and `growth`. "" sets neither.
Result<void> parse_when(std::string_view text, DumpOptions& options);
std::string text_of_when(const DumpOptions& options);

/// "USR2", "SIGUSR2", "12", "none": a signal that serves no other purpose; 0 for none.
std::optional<int> parse_dump_signal(std::string_view text);
std::string text_of_signal(int signal);

}  // namespace memreel::agent
