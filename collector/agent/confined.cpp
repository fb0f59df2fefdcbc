// SPDX-License-Identifier: Apache-2.0
// Our syscall(), the only way to seccomp(2), which the C library does not have as a function. A filter that is
// installed for all threads (SECCOMP_FILTER_FLAG_TSYNC) applies to ours: their calls, which the program doesn't know,
// would kill it or fail. So they end before.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cerrno>

#include "collector/agent/agent.h"
#include "collector/recorder/confinement.h"
#include "collector/recorder/own_thread.h"

namespace memreel::agent {
namespace {

long call_kernel(long number, long a, long b, long c, long d, long e, long f) {
#if defined(__x86_64__)
  long result = number;
  register long r10 asm("r10") = d;  // NOLINT(hicpp-no-assembler)
  register long r8 asm("r8") = e;    // NOLINT(hicpp-no-assembler)
  register long r9 asm("r9") = f;    // NOLINT(hicpp-no-assembler)
  asm volatile("syscall"             // NOLINT(hicpp-no-assembler)
               : "+a"(result)
               : "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
               : "rcx", "r11", "memory");
  return result;
#else
  register long x8 asm("x8") = number;  // NOLINT(hicpp-no-assembler)
  register long x0 asm("x0") = a;       // NOLINT(hicpp-no-assembler)
  register long x1 asm("x1") = b;       // NOLINT(hicpp-no-assembler)
  register long x2 asm("x2") = c;       // NOLINT(hicpp-no-assembler)
  register long x3 asm("x3") = d;       // NOLINT(hicpp-no-assembler)
  register long x4 asm("x4") = e;       // NOLINT(hicpp-no-assembler)
  register long x5 asm("x5") = f;       // NOLINT(hicpp-no-assembler)
  asm volatile("svc 0"                  // NOLINT(hicpp-no-assembler)
               : "+r"(x0)
               : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
               : "memory");
  return x0;
#endif
}

long returned(long result) {
  constexpr long least_error = -4095;
  if (result >= 0 || result < least_error) return result;
  errno = static_cast<int>(-result);
  return -1;
}

void expect_filter(long filter, bool of_all_threads) {
  if (is_confined() || lets_own_threads_live(reinterpret_cast<const sock_fprog*>(filter))) return;
  if (of_all_threads)
    retire("the program's seccomp filter stops it");
  else
    confine_thread();
}

}  // namespace
}  // namespace memreel::agent

// As the C library's. The arguments are whatever is in the registers for them.
extern "C" {
[[gnu::visibility("default")]] long memreel_syscall(long number, long a, long b, long c, long d, long e,
                                                    long f) asm("syscall");
[[gnu::visibility("default")]] int memreel_prctl(int what, long a, long b, long c, long d) asm("prctl");
}

long memreel_syscall(long number, long a, long b, long c, long d, long e, long f) {
  using namespace memreel::agent;
  if (number == SYS_seccomp && a == SECCOMP_SET_MODE_FILTER)
    expect_filter(c, (static_cast<unsigned long>(b) & SECCOMP_FILTER_FLAG_TSYNC) != 0);
  return returned(call_kernel(number, a, b, c, d, e, f));
}

int memreel_prctl(int what, long a, long b, long c, long d) {
  using namespace memreel::agent;
  if (what == PR_SET_SECCOMP && a == SECCOMP_MODE_FILTER) expect_filter(b, false);
  return static_cast<int>(returned(call_kernel(SYS_prctl, what, a, b, c, d, 0)));
}
