// SPDX-License-Identifier: Apache-2.0
// The time of an event, taken in a hook.
#pragma once

#include <cstdint>
#include <ctime>

namespace memreel::agent {

/// If the kernel itself keeps time by the processor's counter (clock source "tsc": synchronised and steady across
/// processors), a hook reads only that counter, which takes a third of the time of reading the system clock. Ticks are
/// converted later, by interpolating between two moments at which both were read. Otherwise the hook reads the system
/// clock.
class Clock {
 public:
  enum class Source : std::uint8_t { system, counter };

  /// The counter, if it is reliable. Reads a kernel file.
  static Source best_source();

  explicit Clock(Source source = best_source());

  /// Now, for time_of(). Any thread.
  std::uint64_t ticks() const { return source_ == Source::counter ? counter() : system_time(); }

  /// Whether `ticks` can be a value that other code read from the same counter, at most 2^32 ticks ago (one to four
  /// seconds). Always false when the system clock is used. Any thread.
  bool can_be_recent(std::uint64_t ticks) const {
    constexpr std::uint64_t longest = std::uint64_t{1} << 32U;
    return source_ == Source::counter && counter() - ticks < longest;
  }

  // One thread at a time:

  /// Reads the system clock. Call it often, and before time_of() with later ticks.
  void adjust();

  /// ns since the Unix epoch, accurate to a fraction of a microsecond.
  std::int64_t time_of(std::uint64_t ticks) const;

  /// Converts ticks to ns.
  std::uint64_t duration(std::uint64_t ticks) const;

 private:
  struct Moment {
    std::uint64_t ticks = 0;
    std::int64_t time = 0;
  };

  static std::uint64_t counter();
  static std::uint64_t system_time() {
    timespec time{};
    ::clock_gettime(CLOCK_REALTIME, &time);
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_nsec);
  }
  static Moment moment();

  Source source_;
  Moment earlier_, recent_;  // at least 10 ms apart, except at the start
  double ns_per_tick_ = 0;
};

#if defined(__x86_64__)
inline std::uint64_t Clock::counter() { return __builtin_ia32_rdtsc(); }
#else
inline std::uint64_t Clock::counter() { return 0; }  // never called
#endif

}  // namespace memreel::agent
