// SPDX-License-Identifier: Apache-2.0
#include "collector/recorder/record.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "formats/model/value_check.h"

namespace memreel::agent {
namespace {

constexpr std::int64_t least_distance_ns = 10'000'000;

/// A program that stands in for clock_gettime() may make it say anything, and readers refuse what exceeds max_time.
constexpr std::int64_t within_limits(std::int64_t time) {
  return std::clamp(time, -max_time.count(), max_time.count());
}

}  // namespace

Clock::Source Clock::best_source() {
#if defined(__x86_64__)
  std::array<char, 16> name{};
  const int file = ::open("/sys/devices/system/clocksource/clocksource0/current_clocksource", O_RDONLY | O_CLOEXEC);
  if (file < 0) return Source::system;
  const ssize_t size = ::read(file, name.data(), name.size());
  ::close(file);
  if (size > 0 && std::string_view(name.data(), static_cast<std::size_t>(size)) == "tsc\n") return Source::counter;
#endif
  return Source::system;
}

Clock::Clock(Source source) : source_(source) {
  if (source_ == Source::counter) earlier_ = recent_ = moment();
}

/// The tightest of a few readings: the thread may have been preempted between the two clocks.
Clock::Moment Clock::moment() {
  Moment best;
  std::uint64_t shortest = ~std::uint64_t{0};
  for (int i = 0; i < 3; ++i) {
    const std::uint64_t before = counter();
    const std::int64_t time = within_limits(static_cast<std::int64_t>(system_time()));
    const std::uint64_t took = counter() - before;
    if (took < shortest) best = {.ticks = before + took / 2, .time = time};
    shortest = took < shortest ? took : shortest;
  }
  return best;
}

void Clock::adjust() {
  if (source_ != Source::counter) return;
  const Moment now = moment();
  // The line passes through two moments some distance apart, so that their errors hardly change its slope.
  if (now.time - recent_.time >= least_distance_ns || now.time < recent_.time) {
    earlier_ = recent_;
    recent_ = now;
  }
  ns_per_tick_ = static_cast<double>(now.time - earlier_.time) / static_cast<double>(now.ticks - earlier_.ticks);
}

std::int64_t Clock::time_of(std::uint64_t ticks) const {
  constexpr std::int64_t most = max_time.count();
  if (source_ != Source::counter) return within_limits(static_cast<std::int64_t>(ticks));
  const auto since = static_cast<double>(static_cast<std::int64_t>(ticks - earlier_.ticks));
  const double time = static_cast<double>(earlier_.time) + since * ns_per_tick_;
  if (std::abs(time) >= static_cast<double>(most)) return time < 0 ? -most : most;
  return earlier_.time + static_cast<std::int64_t>(since * ns_per_tick_);
}

std::uint64_t Clock::duration(std::uint64_t ticks) const {
  if (source_ != Source::counter) return ticks;
  constexpr auto most = static_cast<double>(max_time.count());
  return static_cast<std::uint64_t>(std::clamp(static_cast<double>(ticks) * ns_per_tick_, 0.0, most));
}

}  // namespace memreel::agent
