// The growth rate of a value.
#pragma once

#include <chrono>
#include <deque>
#include <optional>

#include "formats/model/units.h"

namespace memreel::top {

/// Growth over the last minute, from successive samples. Memory: one sample per second.
class Growth {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds window{60};

  void add(Clock::time_point time, Bytes value);

  /// Bytes per minute, negative if it shrinks; none before the second sample.
  std::optional<double> per_minute() const;

 private:
  struct Sample {
    Clock::time_point time;
    Bytes value;
  };
  std::deque<Sample> samples_;  // newest last, however soon after the one before
};

}  // namespace memreel::top
