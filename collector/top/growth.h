// By how much a figure grows.
#pragma once

#include <chrono>
#include <deque>
#include <optional>

#include "formats/model/units.h"

namespace memreel::top {

/// Growth over the last minute, of samples that come one after the other. Memory: one sample for each second of it.
class Growth {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds window{60};

  void add(Clock::time_point time, Bytes value);

  /// Bytes per minute, less than 0 when it shrinks; none before the second sample.
  std::optional<double> per_minute() const;

 private:
  struct Sample {
    Clock::time_point time;
    Bytes value;
  };
  std::deque<Sample> samples_;  // the latest is the last, however little time passed since the one before
};

}  // namespace memreel::top
