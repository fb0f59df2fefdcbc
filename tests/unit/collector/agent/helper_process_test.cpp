// SPDX-License-Identifier: Apache-2.0
// A process that only memreel knows of.
#include "collector/trace/flight_dumps.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>

namespace memreel::agent {
namespace {

/// What `script` writes to file descriptor 4.
std::string report_of(const std::string& script, int input) {
  HelperProcess process;
  const auto started = process.start({"/bin/sh", "-c", script}, input);
  EXPECT_TRUE(started) << started.error().message();
  std::string reported;
  EXPECT_TRUE(process.has_ended(60'000, reported));
  EXPECT_FALSE(process.is_running());
  return reported;
}

class HelperProcessTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/memreel-helper-XXXXXX";
    file_ = ::mkstemp(name);
    ::unlink(name);
    ASSERT_EQ(::write(file_, "content", 7), 7);
    ::lseek(file_, 0, SEEK_SET);
  }
  void TearDown() override { ::close(file_); }

  int file_ = -1;
};

TEST_F(HelperProcessTest, ReadsItsInputAndReports) { EXPECT_EQ(report_of("cat <&3 >&4", file_), "content"); }

TEST_F(HelperProcessTest, GetsMoreInputLater) {
  HelperProcess process;
  ASSERT_TRUE(process.start({"/bin/sh", "-c", "cat <&5 >&4"}, file_));
  std::string reported;
  EXPECT_FALSE(process.has_ended(20, reported));
  process.finish_input("it came");
  process.finish_input("too late");
  EXPECT_TRUE(process.has_ended(60'000, reported));
  EXPECT_EQ(reported, "it came");
}

TEST_F(HelperProcessTest, IsNobodysChild) {
  static volatile std::sig_atomic_t signals = 0;
  signals = 0;
  ::signal(SIGCHLD, [](int) { signals = signals + 1; });
  EXPECT_EQ(report_of("sleep 0.05; echo done >&4", file_), "done\n");
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG | __WALL), -1);
  EXPECT_EQ(errno, ECHILD);
  EXPECT_EQ(signals, 0);
  ::signal(SIGCHLD, SIG_DFL);
}

TEST_F(HelperProcessTest, HasNothingOfTheProgramsButStandardError) {
  ::setenv("MEMREEL_SECRET", "1", 1);
  const int other = ::fcntl(file_, F_DUPFD, 77);  // inherited by every executed program
  const std::string report = report_of("ls /proc/self/fd >&4; env >&4; readlink /proc/self/fd/0 >&4", file_);
  ::close(other);
  ::unsetenv("MEMREEL_SECRET");
  EXPECT_EQ(report.find("MEMREEL_SECRET"), std::string::npos);
  EXPECT_NE(report.find("/dev/null"), std::string::npos);
  EXPECT_EQ(report.find(std::to_string(other) + "\n"), std::string::npos) << report;
}

TEST_F(HelperProcessTest, WhatIsNotThereIsAnError) {
  HelperProcess process;
  EXPECT_FALSE(process.start({"/no/such/program"}, file_));
  EXPECT_FALSE(process.is_running());
}

TEST_F(HelperProcessTest, IsNotWaitedForWhenItTakesLong) {
  HelperProcess process;
  ASSERT_TRUE(process.start({"/bin/sh", "-c", "read line <&3; sleep 5"}, file_));
  std::string reported;
  EXPECT_FALSE(process.has_ended(0, reported));
  process.forget();
}

}  // namespace
}  // namespace memreel::agent
