// SPDX-License-Identifier: Apache-2.0
#include "collector/recorder/own_thread.h"

#include <gtest/gtest.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>

#include <cstddef>
#include <vector>

namespace memreel::agent {
namespace {

constexpr sock_filter load_number BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr));
constexpr sock_filter allow BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
constexpr sock_filter refuse BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1);

bool live(const std::vector<sock_filter>& filter) { return lets_own_threads_live(filter); }

/// Refuses one call and allows all others.
std::vector<sock_filter> without(unsigned call) {
  return {load_number, BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1), refuse, allow};
}

TEST(Confinement, AFilterThatForbidsOtherThingsLetsOurThreadsLive) {
  EXPECT_TRUE(live({allow}));
  EXPECT_TRUE(live(without(SYS_execve)));
  EXPECT_TRUE(live({load_number, BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xFFFF), BPF_STMT(BPF_ST, 3),
                    BPF_STMT(BPF_LDX | BPF_MEM, 3), BPF_STMT(BPF_LD | BPF_IMM, SYS_execve),
                    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_X, 0, 0, 1), refuse, allow}));
  EXPECT_TRUE(live({BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_LOG)}));
  EXPECT_TRUE(live({BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW | 7)})) << "with data of the filter's";
}

TEST(Confinement, AFilterThatForbidsWhatTheyDoDoesNot) {
  EXPECT_FALSE(live(without(SYS_futex)));
  EXPECT_FALSE(live(without(SYS_rt_sigprocmask)));
  EXPECT_FALSE(live({BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)}));
  EXPECT_FALSE(live({load_number, BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 0, 1), allow, refuse}));
}

TEST(Confinement, WhatTheKernelWouldNotAcceptLetsNothingPass) {
  EXPECT_FALSE(live({}));
  EXPECT_FALSE(live({load_number}));
  EXPECT_FALSE(live({BPF_STMT(BPF_JMP | BPF_JA, 0xFFFFFFFF), allow}));
  EXPECT_FALSE(live({BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 4096), allow}));
  EXPECT_FALSE(live({BPF_STMT(BPF_ALU | BPF_DIV | BPF_X, 0), allow}));
  EXPECT_FALSE(live({BPF_STMT(BPF_ST, 99), allow}));
}

TEST(Confinement, WhatIsNoFilterDoesNoHarm) {
  EXPECT_TRUE(lets_own_threads_live(static_cast<const sock_fprog*>(nullptr)));
  const sock_fprog unreadable{.len = 2, .filter = nullptr};
  EXPECT_TRUE(lets_own_threads_live(&unreadable));
}

}  // namespace
}  // namespace memreel::agent
