// SPDX-License-Identifier: Apache-2.0
// Whether an awaited process is still the same one and still running.
#include "collector/attach/process.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace memreel::attach {
namespace {

pid_t child_that_waits() {
  const pid_t child = ::fork();
  if (child == 0) {
    while (true) ::pause();
  }
  return child;
}

TEST(KnownProcess, HasNotEndedWhileItRuns) {
  const pid_t child = child_that_waits();
  const KnownProcess known(child);
  EXPECT_FALSE(known.has_ended());
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(known.has_ended());
}

TEST(KnownProcess, HasEndedBeforeItsParentLooks) {
  const pid_t child = child_that_waits();
  const KnownProcess known(child);
  ::kill(child, SIGKILL);
  siginfo_t info{};
  ::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT);
  EXPECT_TRUE(known.has_ended());
  ::waitpid(child, nullptr, 0);
}

TEST(KnownProcess, HasEndedWhenItWasGoneAtOnce) {
  const pid_t child = child_that_waits();
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(KnownProcess(child).has_ended());
}

TEST(KnownProcess, LivesOnWithoutItsFirstThread) {
  const pid_t child = ::fork();
  if (child == 0) {
    pthread_t other{};
    ::pthread_create(
        &other, nullptr,
        [](void*) -> void* {
          while (true) ::pause();
        },
        nullptr);
    ::syscall(SYS_exit, 0);  // ends only this thread
  }
  const KnownProcess known(child);
  while (!status_field(child, "State").starts_with('Z')) ::usleep(1000);
  EXPECT_FALSE(known.has_ended());
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(known.has_ended());
}

}  // namespace
}  // namespace memreel::attach
