// The time of an event, taken in a hook.
#pragma once

#include <cstdint>
#include <ctime>

namespace memreel::agent {

/// Where the kernel itself keeps the time by the processor's counter (the clock source "tsc": the same and steady on
/// all processors), a hook reads that counter alone, which takes a third of the time that asking for the system's clock
/// takes. What it stood for is found afterwards, between two moments at which both were read. Elsewhere the hook asks
/// for the system's clock.
class Clock {
 public:
  enum class Source : std::uint8_t { system, counter };

  /// The counter, if it can be relied upon. Reads a file of the kernel.
  static Source best_source();

  explicit Clock(Source source = best_source());

  /// Now, for time_of(). Any thread.
  std::uint64_t ticks() const { return source_ == Source::counter ? counter() : system_time(); }

  /// Whether this can be what somebody else read from the same counter, at most 2^32 ticks ago (one to four seconds).
  /// Never where the system's clock is asked. Any thread.
  bool can_be_recent(std::uint64_t ticks) const {
    constexpr std::uint64_t longest = std::uint64_t{1} << 32U;
    return source_ == Source::counter && counter() - ticks < longest;
  }

  // One thread at a time:

  /// Looks at the system's clock. To be called often, and before time_of() is asked for later ticks.
  void adjust();

  /// ns since the Unix epoch, off by a fraction of a microsecond.
  std::int64_t time_of(std::uint64_t ticks) const;

  /// ns that so many ticks take.
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
  Moment earlier_, recent_;  // at least 10 ms apart, but for the beginning
  double ns_per_tick_ = 0;
};

#if defined(__x86_64__)
inline std::uint64_t Clock::counter() { return __builtin_ia32_rdtsc(); }
#else
inline std::uint64_t Clock::counter() { return 0; }  // never asked
#endif

}  // namespace memreel::agent
