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
#include "collector/recorder/own_thread.h"

// Instruction by instruction as the C library's (sysdeps/unix/sysv/linux/{x86_64,aarch64}/syscall.S in glibc): a child
// that shares the caller's memory (vfork, clone with CLONE_VM) returns from this function too, on the same stack before
// its parent does, or on a stack that the program prepared. A frame of ours on it would be overwritten, or not be
// there.
#if defined(__x86_64__)
static_assert(SYS_seccomp == 317);
asm(R"(
    .text
    .globl  syscall
    .type   syscall, @function
syscall:
    .cfi_startproc
    endbr64
    cmpl    $317, %edi
    je      memreel_install_filter
    .globl  memreel_call_kernel
    .hidden memreel_call_kernel
memreel_call_kernel:
    movq    %rdi, %rax
    movq    %rsi, %rdi
    movq    %rdx, %rsi
    movq    %rcx, %rdx
    movq    %r8, %r10
    movq    %r9, %r8
    movq    8(%rsp), %r9
    syscall
    cmpq    $-4095, %rax
    jae     1f
    ret
1:
    movq    %rax, %rdi
    jmp     memreel_fail_call
    .cfi_endproc
    .size   syscall, .-syscall
)");
#else
static_assert(SYS_seccomp == 277);
asm(R"(
    .text
    .globl  syscall
    .type   syscall, %function
syscall:
    .cfi_startproc
    hint    #34                 // bti c
    cmp     w0, #277
    b.ne    memreel_call_kernel
    b       memreel_install_filter
    .globl  memreel_call_kernel
    .hidden memreel_call_kernel
memreel_call_kernel:
    uxtw    x8, w0
    mov     x0, x1
    mov     x1, x2
    mov     x2, x3
    mov     x3, x4
    mov     x4, x5
    mov     x5, x6
    svc     0
    cmn     x0, #4095
    b.cs    1f
    ret
1:
    b       memreel_fail_call
    .cfi_endproc
    .size   syscall, .-syscall
)");
#endif

namespace memreel::agent {
namespace {

void expect_filter(long filter, bool of_all_threads) {
  if (is_confined() || shares_memory_with_its_parent() ||
      lets_own_threads_live(reinterpret_cast<const sock_fprog*>(filter)))
    return;
  if (of_all_threads)
    retire("the program's seccomp filter stops it");
  else
    confine_thread();
}

}  // namespace
}  // namespace memreel::agent

extern "C" {
long memreel_call_kernel(long number, long a, long b, long c, long d, long e, long f);
[[gnu::used, gnu::visibility("hidden")]] long memreel_install_filter(long number, long operation, long flags,
                                                                     long filter, long d, long e, long f);
[[gnu::used, gnu::visibility("hidden")]] long memreel_fail_call(long result);
[[gnu::visibility("default")]] int memreel_prctl(int what, long a, long b, long c, long d) asm("prctl");
}

long memreel_install_filter(long number, long operation, long flags, long filter, long d, long e, long f) {
  if (operation == SECCOMP_SET_MODE_FILTER)
    memreel::agent::expect_filter(filter, (static_cast<unsigned long>(flags) & SECCOMP_FILTER_FLAG_TSYNC) != 0);
  return memreel_call_kernel(number, operation, flags, filter, d, e, f);
}

long memreel_fail_call(long result) {
  errno = static_cast<int>(-result);
  return -1;
}

int memreel_prctl(int what, long a, long b, long c, long d) {
  if (what == PR_SET_SECCOMP && a == SECCOMP_MODE_FILTER) memreel::agent::expect_filter(b, false);
  return static_cast<int>(memreel_call_kernel(SYS_prctl, what, a, b, c, d, 0));
}
