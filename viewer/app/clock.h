// The clock for the viewer's own timings.
#pragma once

#include <chrono>

namespace memreel::viewer {

using Clock = std::chrono::steady_clock;

inline double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

}  // namespace memreel::viewer
