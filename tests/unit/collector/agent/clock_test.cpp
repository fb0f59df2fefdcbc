// SPDX-License-Identifier: Apache-2.0
// The hooks' clock agrees with the system's.
#include "collector/recorder/record.h"

#include <gtest/gtest.h>

#include <vector>

#include "formats/model/value_check.h"

namespace memreel::agent {
namespace {

std::int64_t system_time() {
  timespec time{};
  ::clock_gettime(CLOCK_REALTIME, &time);
  return time.tv_sec * std::int64_t{1'000'000'000} + time.tv_nsec;
}

class ClockBy : public ::testing::TestWithParam<Clock::Source> {};

INSTANTIATE_TEST_SUITE_P(, ClockBy, ::testing::Values(Clock::Source::system, Clock::Source::counter),
                         [](const auto& instance) {
                           return instance.param == Clock::Source::system ? "AskingTheSystem" : "Counting";
                         });

TEST_P(ClockBy, EveryMomentIsWhereTheSystemHasIt) {
  if (GetParam() == Clock::Source::counter && Clock::best_source() != Clock::Source::counter)
    GTEST_SKIP() << "the system does not keep time by the processor's counter";
  Clock clock(GetParam());
  struct Moment {
    std::int64_t before;
    std::uint64_t ticks;
    std::int64_t after;
  };
  constexpr std::int64_t tolerance = 1'000'000;  // the thread may be preempted while the clock reads the system's
  const std::int64_t begin = system_time();
  std::int64_t latest = 0;
  for (int round = 0; system_time() - begin < 60'000'000; ++round) {
    std::vector<Moment> moments(100);
    for (Moment& moment : moments) {
      moment.before = system_time();
      moment.ticks = clock.ticks();
      moment.after = system_time();
    }
    clock.adjust();
    for (const Moment& moment : moments) {
      const std::int64_t time = clock.time_of(moment.ticks);
      ASSERT_GE(time, moment.before - tolerance) << "in round " << round;
      ASSERT_LE(time, moment.after + tolerance) << "in round " << round;
      latest = time;
    }
  }
  EXPECT_GT(latest, begin);
  const std::uint64_t from = clock.ticks();
  const std::int64_t slept_from = system_time();
  while (system_time() - slept_from < 5'000'000) {
  }
  EXPECT_GE(clock.duration(clock.ticks() - from), 4'900'000U);
}

// A program may stand in for clock_gettime().
TEST(Clock, NoTimeIsBeyondWhatReadersAccept) {
  const Clock clock(Clock::Source::system);
  for (const std::uint64_t ticks : {~std::uint64_t{0} >> 1U, std::uint64_t{1} << 63U, std::uint64_t{1} << 62U})
    EXPECT_TRUE(is_possible(Nanoseconds(clock.time_of(ticks)))) << ticks;
  EXPECT_EQ(clock.time_of(1'700'000'000'000'000'000), 1'700'000'000'000'000'000);
}

}  // namespace
}  // namespace memreel::agent
