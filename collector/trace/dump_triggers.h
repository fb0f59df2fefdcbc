// Events that make a flight recorder write a dump.
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

/// The reason, for people: "out of memory", "95% of GPU 0's memory is used", ...
struct DumpCause {
  DumpReason reason = DumpReason::asked;
  std::string text;
};

/// A request that a framework refuses is a failure to the program. After a refusal by the driver, a framework may retry
/// after freeing memory, or with a smaller size: if the thread soon gets at least half as much, it did not fail.
class DumpTriggers {
 public:
  /// How long after a driver refusal such a retry counts, in event time.
  static constexpr Nanoseconds patience = std::chrono::milliseconds(200);

  explicit DumpTriggers(const DumpOptions& options) : options_(options) {}

  void see(const Event& event, const Tables& tables);

  /// What has triggered by `now`, in event time; repeated requests are reported once. Failures are reported one at a
  /// time, with a count.
  std::optional<DumpCause> due(Nanoseconds now);

  /// Requests that failed so far.
  std::uint64_t failures() const { return failures_; }

 private:
  struct Refusal {
    Nanoseconds time{};
    Bytes size;
    std::int32_t device = 0;
    std::uint64_t count = 1;  // failed retries
  };
  struct Device {
    bool over = false, grows = false;                // reported, until no longer true
    std::deque<std::pair<Nanoseconds, Bytes>> lows;  // within the growth period: each lower than all after it
  };

  void refused(const Event& event, const Tables& tables);
  void sampled(const Event& event, const Tables& tables);
  void fail(Bytes size, std::int32_t device, std::uint64_t count = 1);

  DumpOptions options_;
  std::unordered_map<std::uint32_t, Refusal> refusals_;  // by the driver, by thread
  std::map<std::int32_t, Device> devices_;
  std::uint64_t failures_ = 0;
  std::optional<DumpCause> failure_, limit_;
};

}  // namespace memreel::agent
