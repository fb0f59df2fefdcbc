// SPDX-License-Identifier: Apache-2.0
// The flight recorder's options.
#include "collector/options/options.h"

#include <gtest/gtest.h>

namespace memreel::agent {
namespace {

using std::chrono::hours, std::chrono::minutes, std::chrono::seconds;

TEST(FlightOptions, ASizeATimeOrBoth) {
  EXPECT_EQ(*parse_flight("256MiB"), (FlightOptions{.size = 256_MiB, .span = {}}));
  EXPECT_EQ(*parse_flight("10min"), (FlightOptions{.size = 256_MiB, .span = minutes(10)}));
  EXPECT_EQ(*parse_flight("90s"), (FlightOptions{.size = 256_MiB, .span = seconds(90)}));
  EXPECT_EQ(*parse_flight("1GiB,2h"), (FlightOptions{.size = 1_GiB, .span = hours(2)}));
  EXPECT_EQ(*parse_flight("2h,1GiB"), (FlightOptions{.size = 1_GiB, .span = hours(2)}));
  EXPECT_EQ(*parse_flight(""), FlightOptions{});
}

TEST(FlightOptions, AnythingElseIsRefused) {
  for (const char* text : {"x", "10", "1MiB,2MiB", "1h,2h", "-1h", "0min", "0.1ns", "0.0000001ms", "1e30d", "1000KiB",
                           ",", "nan s", "inf h"})
    EXPECT_FALSE(parse_flight(text)) << text;
}

TEST(FlightOptions, WhatIsWrittenIsRead) {
  for (const char* text : {"", "256MiB", "10min", "1GiB,1h", "256MiB,0.5ms", "0.3ms", "1.1s", "0.7h", "3.3d",
                           "123.456789d", "365d", "1ns"}) {
    const FlightOptions options = *parse_flight(text);
    EXPECT_EQ(*parse_flight(text_of(options)), options) << text;
  }
}

TEST(FlightOptions, Limits) {
  DumpOptions options;
  ASSERT_TRUE(parse_when("95%,+2GiB/min", options));
  EXPECT_EQ(options.used_percent, 95);
  EXPECT_EQ(*options.growth, (DumpOptions::Growth{.bytes = 2_GiB, .time = minutes(1)}));
  ASSERT_TRUE(parse_when("+512MiB/10min", options));
  EXPECT_EQ(*options.growth, (DumpOptions::Growth{.bytes = 512_MiB, .time = minutes(10)}));
  DumpOptions again;
  ASSERT_TRUE(parse_when(text_of_when(options), again));
  EXPECT_EQ(again, options);
  for (const char* text : {"0.0000001%", "7%", "33.3333333%", "100%", "1e-300%", "+1B/0.5ms", "14%,+1GiB/0.3s"}) {
    DumpOptions one, other;
    ASSERT_TRUE(parse_when(text, one)) << text;
    ASSERT_TRUE(parse_when(text_of_when(one), other)) << text;
    EXPECT_EQ(one, other) << text;
  }
  for (const char* text : {"95", "0%", "101%", "2GiB/min", "+2GiB", "+0B/min", "+1GiB/fortnight"})
    EXPECT_FALSE(parse_when(text, options)) << text;
}

TEST(FlightOptions, OnlySignalsThatMeanNothingElse) {
  EXPECT_EQ(parse_dump_signal("USR2"), SIGUSR2);
  EXPECT_EQ(parse_dump_signal("SIGUSR1"), SIGUSR1);
  EXPECT_EQ(parse_dump_signal("none"), 0);
  EXPECT_EQ(parse_dump_signal(std::to_string(SIGRTMIN + 1)), SIGRTMIN + 1);
  for (const char* text : {"KILL", "TERM", "9", "15", "-1", "USR3", ""}) EXPECT_FALSE(parse_dump_signal(text)) << text;
}

}  // namespace
}  // namespace memreel::agent
