// Events after which a flight recorder is written out.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "collector/options/flight_options.h"
#include "formats/model/event.h"
#include "formats/model/tables.h"

namespace memreel::agent {

enum class DumpReason : std::uint8_t { out_of_memory, used, growth, signal, asked };

/// "out of memory", "95 % of GPU 0 used", ...: why, for people.
struct DumpCause {
  DumpReason reason = DumpReason::asked;
  std::string text;
};

/// What a framework refuses, the program gets as a failure. What the driver refuses may be tried again by a framework,
/// after it gave something back, or with less: a thread that is served at least half as much soon after was not failed.
class DumpTriggers {
 public:
  /// How long a refusal of the driver may be made good, in the time of events.
  static constexpr Nanoseconds patience = std::chrono::milliseconds(200);

  explicit DumpTriggers(const DumpOptions& options) : options_(options) {}

  void see(const Event& event, const Tables& tables);

  /// What has come about by `now`, in the time of events; what is asked for twice is told once. Failures are told one
  /// at a time, with how many there were.
  std::optional<DumpCause> due(Nanoseconds now);

  /// Requests that failed so far.
  std::uint64_t failures() const { return failures_; }

 private:
  struct Refusal {
    Nanoseconds time{};
    Bytes size;
    std::int32_t device = 0;
    std::uint64_t count = 1;  // asked for again in vain
  };
  struct Device {
    bool over = false, grows = false;                // told, until it no longer is so
    std::deque<std::pair<Nanoseconds, Bytes>> lows;  // within the time of growth: each lower than all after it
  };

  void refused(const Event& event, const Tables& tables);
  void sampled(const Event& event, const Tables& tables);
  void fail(Bytes size, std::int32_t device, std::uint64_t count = 1);

  DumpOptions options_;
  std::unordered_map<std::uint32_t, Refusal> refusals_;  // by thread, of the driver
  std::map<std::int32_t, Device> devices_;
  std::uint64_t failures_ = 0;
  std::optional<DumpCause> failure_, limit_;
};

}  // namespace memreel::agent
