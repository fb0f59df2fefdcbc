// SPDX-License-Identifier: Apache-2.0
// The dump signal, and programs that use that signal themselves.
#include "collector/trace/flight_dumps.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace memreel::agent {
namespace {

volatile std::sig_atomic_t programs = 0;

TEST(DumpSignal, IsCounted) {
  const DumpSignal signal(SIGUSR2);
  const std::uint64_t before = signal.count();
  ::raise(SIGUSR2);
  ::raise(SIGUSR2);
  EXPECT_EQ(signal.count(), before + 2);
}

TEST(DumpSignal, AHandlerThatIsThereStays) {
  ::signal(SIGUSR2, [](int) { programs = 1; });
  {
    DumpSignal signal(SIGUSR2);
    EXPECT_NE(signal.conflict(), "");
    EXPECT_EQ(signal.conflict(), "") << "told once";
    ::raise(SIGUSR2);
    EXPECT_EQ(programs, 1);
  }
  programs = 0;
  ::raise(SIGUSR2);
  EXPECT_EQ(programs, 1);
  ::signal(SIGUSR2, SIG_DFL);
}

TEST(DumpSignal, AHandlerThatComesLaterStays) {
  {
    DumpSignal signal(SIGUSR2);
    EXPECT_EQ(signal.conflict(), "");
    ::signal(SIGUSR2, [](int) { programs = 2; });
    EXPECT_NE(signal.conflict(), "");
  }
  ::raise(SIGUSR2);
  EXPECT_EQ(programs, 2);
  ::signal(SIGUSR2, SIG_DFL);
}

TEST(DumpSignal, IgnoredStaysIgnored) {
  ::signal(SIGUSR2, SIG_IGN);
  {
    const DumpSignal signal(SIGUSR2);
    struct sigaction now {};
    ::sigaction(SIGUSR2, nullptr, &now);
    EXPECT_EQ(now.sa_handler, SIG_IGN);
    const std::uint64_t before = signal.count();
    ::raise(SIGUSR2);
    EXPECT_EQ(signal.count(), before);
  }
  ::raise(SIGUSR2);  // which ends a program that does not ignore it
  ::signal(SIGUSR2, SIG_DFL);
}

TEST(DumpSignal, AForkedChildEndsAsItWouldHave) {
  const DumpSignal signal(SIGUSR2);
  const pid_t child = ::fork();
  if (child == 0) {
    ::raise(SIGUSR2);
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGUSR2);
}

}  // namespace
}  // namespace memreel::agent
