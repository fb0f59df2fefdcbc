#include "collector/top/growth.h"

namespace memreel::top {

void Growth::add(Clock::time_point time, Bytes value) {
  constexpr std::chrono::seconds apart{1};
  if (samples_.size() >= 2 && time - samples_[samples_.size() - 2].time < apart) samples_.pop_back();
  samples_.push_back({.time = time, .value = value});
  // One older sample stays, so that the window is complete.
  while (samples_.size() > 2 && time - samples_[1].time >= window) samples_.pop_front();
}

std::optional<double> Growth::per_minute() const {
  if (samples_.size() < 2) return std::nullopt;
  const std::chrono::duration<double, std::ratio<60>> minutes = samples_.back().time - samples_.front().time;
  if (minutes.count() <= 0) return std::nullopt;
  return (static_cast<double>(samples_.back().value.count) - static_cast<double>(samples_.front().value.count)) /
         minutes.count();
}

}  // namespace memreel::top
