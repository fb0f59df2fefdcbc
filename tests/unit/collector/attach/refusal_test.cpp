// SPDX-License-Identifier: Apache-2.0
// The message for users without permission to trace a process.
#include "collector/attach/injector.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <cerrno>

namespace memreel::attach {
namespace {

using ::testing::AllOf, ::testing::HasSubstr, ::testing::Not;

constexpr pid_t process = 4711;

std::string told(int reason, int level) { return explain_refused_trace(process, reason, level).message(); }

TEST(Refusal, EachLevelOfYamaHasItsRemedy) {
  EXPECT_THAT(told(EPERM, 1), AllOf(HasSubstr("process 4711"), HasSubstr("ptrace_scope is 1"), HasSubstr("as root"),
                                    HasSubstr("sysctl kernel.yama.ptrace_scope=0")));
  EXPECT_THAT(told(EPERM, 2), AllOf(HasSubstr("ptrace_scope is 2"), HasSubstr("as root"), Not(HasSubstr("sysctl"))));
  EXPECT_THAT(told(EPERM, 3),
              AllOf(HasSubstr("ptrace_scope is 3"), HasSubstr("--dormant"), Not(HasSubstr("run memreel attach as"))));
}

TEST(Refusal, WithoutYamaItIsTheContainer) {
  for (const int level : {-1, 0}) EXPECT_THAT(told(EACCES, level), HasSubstr("CAP_SYS_PTRACE"));
}

TEST(Refusal, OtherReasonsAreNamed) {
  EXPECT_THAT(told(ESRCH, 1), HasSubstr("has ended"));
  EXPECT_THAT(told(EBUSY, 1), AllOf(HasSubstr("can't be traced"), HasSubstr("--dormant")));
}

TEST(Refusal, OneLineEach) {
  for (const int level : {-1, 0, 1, 2, 3})
    for (const int reason : {EPERM, ESRCH, EBUSY}) EXPECT_THAT(told(reason, level), Not(HasSubstr("\n")));
}

TEST(Refusal, WhatIsNoProgramToJoin) {
  EXPECT_THAT(check_alive(::getpid()).error().message(), HasSubstr("memreel itself"));
  EXPECT_THAT(check_alive(-1).error().message(), HasSubstr("no such process"));
}

}  // namespace
}  // namespace memreel::attach
