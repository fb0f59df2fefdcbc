// How a program is recorded for ever (docs/flight-recorder.md): what is kept, and when it is written out.
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

  Bytes size;                       // of the recording on disk; 0: it is not one of this kind
  std::optional<Nanoseconds> span;  // events of so long are kept where `size` allows; none: as much as it allows

  friend bool operator==(const FlightOptions&, const FlightOptions&) = default;
};

/// When a dump is written, besides on failures.
struct DumpOptions {
  std::optional<double> used;  // share of a device's memory that is used: above 0, at most 1
  struct Growth {
    Bytes bytes;
    Nanoseconds time{};
    friend bool operator==(const Growth&, const Growth&) = default;
  };
  std::optional<Growth> growth;  // of what is used on a device
  int signal = SIGUSR2;          // 0: none
  std::uint32_t kept = 8;        // dumps; the oldest is removed for another one

  friend bool operator==(const DumpOptions&, const DumpOptions&) = default;
};

/// "256MiB", "10min", or both with a comma; the size is 256 MiB where only a time is given. "" is none.
Result<FlightOptions> parse_flight(std::string_view text);
std::string text_of(const FlightOptions& options);

/// "95%", "+2GiB/min", or both with a comma: sets `used` and `growth`. "" sets neither.
Result<void> parse_when(std::string_view text, DumpOptions& options);
std::string text_of_when(const DumpOptions& options);

/// "USR2", "SIGUSR2", "12", "none": a signal that ends or disturbs nothing else; 0 for none.
std::optional<int> parse_dump_signal(std::string_view text);
std::string text_of_signal(int signal);

}  // namespace memreel::agent
