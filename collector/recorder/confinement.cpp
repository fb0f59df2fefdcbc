// SPDX-License-Identifier: Apache-2.0
#include "collector/recorder/confinement.h"

#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#include "collector/stacks/stack_memory.h"

namespace memreel::agent {
namespace {

#if defined(__x86_64__)
constexpr std::uint32_t own_architecture = AUDIT_ARCH_X86_64;
#else
constexpr std::uint32_t own_architecture = AUDIT_ARCH_AARCH64;
#endif

/// From the start of a thread to its end, with the writing of a trace in between.
constexpr std::array own_calls{SYS_rseq,           SYS_set_robust_list,
                               SYS_rt_sigprocmask, SYS_gettid,
                               SYS_futex,          SYS_clock_nanosleep,
                               SYS_ppoll,          SYS_openat,
                               SYS_read,           SYS_write,
                               SYS_close,          SYS_newfstatat,
                               SYS_lseek,          SYS_mmap,
                               SYS_munmap,         SYS_brk,
                               SYS_exit,           SYS_madvise,
                               SYS_getpid,         SYS_mprotect};

std::optional<std::uint32_t> combined(std::uint16_t operation, std::uint32_t a, std::uint32_t b) {
  switch (BPF_OP(operation)) {
    case BPF_ADD:
      return a + b;
    case BPF_SUB:
      return a - b;
    case BPF_MUL:
      return a * b;
    case BPF_DIV:
      return b == 0 ? std::nullopt : std::optional(a / b);
    case BPF_AND:
      return a & b;
    case BPF_OR:
      return a | b;
    case BPF_XOR:
      return a ^ b;
    case BPF_LSH:
      return b < 32 ? a << b : 0;
    case BPF_RSH:
      return b < 32 ? a >> b : 0;
    case BPF_NEG:
      return -a;
    default:
      return std::nullopt;
  }
}

std::optional<bool> compared(std::uint16_t operation, std::uint32_t a, std::uint32_t b) {
  switch (BPF_OP(operation)) {
    case BPF_JEQ:
      return a == b;
    case BPF_JGT:
      return a > b;
    case BPF_JGE:
      return a >= b;
    case BPF_JSET:
      return (a & b) != 0;
    default:
      return std::nullopt;
  }
}

/// What the filter answers to a call; none if the kernel would not accept it. Jumps lead forwards, so it ends.
std::optional<std::uint32_t> answer_to(const seccomp_data& call, std::span<const sock_filter> filter) {
  std::uint32_t a = 0, x = 0;
  std::array<std::uint32_t, BPF_MEMWORDS> memory{};
  for (std::size_t at = 0; at < filter.size(); ++at) {
    const auto& [code, if_true, if_false, k] = filter[at];
    const std::uint32_t operand = BPF_SRC(code) == BPF_X ? x : k;
    std::uint32_t& loaded = BPF_CLASS(code) == BPF_LDX ? x : a;
    switch (BPF_CLASS(code)) {
      case BPF_LD:
      case BPF_LDX:
        if (BPF_MODE(code) == BPF_IMM) {
          loaded = k;
        } else if (BPF_MODE(code) == BPF_LEN) {
          loaded = sizeof call;
        } else if (BPF_MODE(code) == BPF_MEM && k < memory.size()) {
          loaded = memory.at(k);
        } else if (BPF_MODE(code) == BPF_ABS && k % sizeof k == 0 && k <= sizeof call - sizeof k) {
          std::memcpy(&a, reinterpret_cast<const char*>(&call) + k, sizeof a);
        } else {
          return std::nullopt;
        }
        break;
      case BPF_ST:
      case BPF_STX:
        if (k >= memory.size()) return std::nullopt;
        memory.at(k) = BPF_CLASS(code) == BPF_STX ? x : a;
        break;
      case BPF_ALU: {
        const auto result = combined(code, a, operand);
        if (!result) return std::nullopt;
        a = *result;
        break;
      }
      case BPF_JMP: {
        if (BPF_OP(code) == BPF_JA) {
          at += k;
          break;
        }
        const auto result = compared(code, a, operand);
        if (!result) return std::nullopt;
        at += *result ? if_true : if_false;
        break;
      }
      case BPF_RET:
        return BPF_RVAL(code) == BPF_A ? a : k;
      default:
        (BPF_MISCOP(code) == BPF_TAX ? x : a) = BPF_MISCOP(code) == BPF_TAX ? a : x;
    }
  }
  return std::nullopt;
}

}  // namespace

bool lets_own_threads_live(std::span<const sock_filter> filter) {
  return std::ranges::all_of(own_calls, [&](int call) {
    const auto answer = answer_to({.nr = call, .arch = own_architecture}, filter);
    return answer == SECCOMP_RET_ALLOW || answer == SECCOMP_RET_LOG;
  });
}

bool lets_own_threads_live(const sock_fprog* filter) {
  const auto readable = [](const void* first, std::size_t size) {
    const auto begin = reinterpret_cast<std::uintptr_t>(first);
    return stacks::is_readable(begin) && stacks::is_readable(begin + size - 1);
  };
  if (!readable(filter, sizeof *filter) || filter->len == 0) return true;
  const std::span program(filter->filter, filter->len);
  return !readable(program.data(), program.size_bytes()) || lets_own_threads_live(program);
}

}  // namespace memreel::agent
