// SPDX-License-Identifier: Apache-2.0
// What the launcher passes to the agent in the profiled process. It travels in environment variables, so that children
// inherit it; an unset variable means the default below.
#pragma once

#include <csignal>
#include <functional>
#include <vector>

#include "formats/model/result.h"
#include "formats/model/units.h"

namespace memreel::agent {

// Options of the flight recorder (docs/flight-recorder.md): what it keeps, and when it writes a dump.

struct FlightOptions {
  static constexpr Bytes least_size = 1_MiB;

  Bytes size;                       // of the recording on disk; 0: not a flight recorder
  std::optional<Nanoseconds> span;  // how long events are kept, if `size` allows; none: as long as it allows

  friend bool operator==(const FlightOptions&, const FlightOptions&) = default;
};

/// When to write a dump, besides on failures.
struct DumpOptions {
  std::optional<double> used_percent;  // trigger when this share of a device's memory is used: above 0, at most 100
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

/// What a thread does with an event when its ring is full.
enum class WhenFull : std::uint8_t {
  drop,   // counts it as lost and continues
  block,  // waits for the writing thread
};

/// Where driver calls are observed.
enum class BackendChoice : std::uint8_t {
  automatic,  // CUPTI; if it is taken, the interposed symbols if the agent was preloaded
  cupti,      // CUPTI or nothing
  interpose,  // the interposed symbols or nothing: needs LD_PRELOAD
};

struct Options {
  std::string output = "memreel-%h-%p.reel";  // MEMREEL_OUTPUT; pattern of the trace's name, see trace_name()
  std::string journal;  // MEMREEL_JOURNAL; file that receives a line per trace (journal.h); empty: none
  std::uint32_t ring_events = 1U << 16U;  // MEMREEL_RING_EVENTS; per thread: 64 .. 2^24, rounded up to a power of 2
  WhenFull when_full = WhenFull::drop;    // MEMREEL_WHEN_FULL: drop | block
  std::uint32_t depth = 64;               // MEMREEL_DEPTH; maximum native frames per stack, 0 .. 1024; 0: no stacks
  std::chrono::milliseconds sample_period{100};  // MEMREEL_SAMPLE_MS; of memory_info events, 0 .. 1 h; 0: none
  std::chrono::milliseconds flush_period{50};  // MEMREEL_FLUSH_MS; latest time until events are in the file: 1 .. 1000
  BackendChoice backend = BackendChoice::automatic;  // MEMREEL_BACKEND: auto | cupti | interpose
  bool dormant = false;                              // MEMREEL_DORMANT: 0 | 1; record only on request
  bool torch = true;                                 // MEMREEL_TORCH: 0 | 1; record PyTorch's tensors
  bool python = true;                                // MEMREEL_PYTHON: 0 | 1; Python frames in stacks
  bool holders = true;                               // MEMREEL_HOLDERS: 0 | 1; what keeps memory, in dumps
  std::uint32_t mode = 0600;                         // MEMREEL_MODE; permissions of the trace, in octal digits
  bool mask = true;                                  // MEMREEL_MASK: 0 | 1; mask arguments that look like secrets
  FlightOptions flight;                              // MEMREEL_FLIGHT: SIZE, TIME or SIZE,TIME; empty: keep everything
  DumpOptions dumps;     // MEMREEL_FLIGHT_WHEN, MEMREEL_FLIGHT_SIGNAL, MEMREEL_FLIGHT_DUMPS (1 .. 1000)
  std::string libcupti;  // MEMREEL_LIBCUPTI; the file to load; empty: search

  friend bool operator==(const Options&, const Options&) = default;
};

/// Permissions of a file that its owner can read and write, from octal digits such as "640".
std::optional<std::uint32_t> parse_mode(std::string_view text);

/// The value of an environment variable, if it is set.
using Lookup = std::function<std::optional<std::string>(const char* name)>;

/// Errors name the variable, its value and the allowed values.
Result<Options> read_options(const Lookup& lookup);

/// read_options() of this process.
Result<Options> options_from_environment();

/// Options::journal, whatever the other options are: an error in those belongs there.
std::string journal_from_environment();

/// The variables for which read_options() returns `options`, including those with default values.
std::vector<std::pair<std::string, std::string>> to_environment(const Options& options);

/// The values of a pattern's placeholders in one process.
struct ProcessNames {
  std::uint64_t process = 0;
  std::string host;
  std::string rank;     // empty: no rank
  std::string machine;  // its processor's, as `uname -m`
};

/// For this process: its PID, its host and machine, and the rank from the innermost launcher (launchers.h).
ProcessNames process_names();

/// Replaces %p in `pattern` by the process ID, %h by the host, %r by the rank ("none" if there is none, as in the
/// process that starts the ranks) and %% by a percent sign; anything else stays. If `attempt` > 0, inserts "-ATTEMPT"
/// before the extension: the name to try when the previous one exists.
std::string trace_name(std::string_view pattern, const ProcessNames& names, unsigned attempt = 0);

}  // namespace memreel::agent
