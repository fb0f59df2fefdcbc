// SPDX-License-Identifier: Apache-2.0
#include "collector/recorder/own_thread.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>
#include <optional>
#include <string_view>

#include "collector/stacks/nap.h"
#include "collector/stacks/stack_memory.h"

namespace memreel::agent {
namespace {

// NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables): a process has one number of threads
constinit std::atomic<pid_t> process = 0;
constinit std::atomic<unsigned> running = 0;
constinit std::atomic<bool> retired = false;
constinit std::array<std::atomic<pid_t>, 16> own_threads{};  // negative: its work is done, and it is about to end
[[gnu::tls_model("initial-exec")]] constinit thread_local bool confined = false;
// NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables)

[[gnu::constructor]] void learn_process() {
  process = ::getpid();
  ::pthread_atfork(nullptr, nullptr, [] {  // a child has none of the threads
    process = ::getpid();
    running = 0;
    for (std::atomic<pid_t>& place : own_threads) place = 0;
  });
}

/// The calling thread's place in `own_threads`; null if there are too many.
std::atomic<pid_t>* place_of_thread() {
  const auto self = static_cast<pid_t>(::syscall(SYS_gettid));
  for (std::atomic<pid_t>& place : own_threads)
    if (pid_t other = place; other <= 0 && place.compare_exchange_strong(other, self)) return &place;
  return nullptr;
}

}  // namespace

bool Gate::try_lock_for(std::chrono::milliseconds limit) {
  if (is_confined()) return false;
  const auto self = static_cast<pid_t>(::syscall(SYS_gettid));
  bool is_mine = false;
  const auto try_lock = [&] {
    pid_t holder = 0;
    is_mine = holder_.compare_exchange_strong(holder, self, std::memory_order_acquire);
    return is_mine || holder == self;  // which would wait for itself
  };
  stacks::nap_until(try_lock, limit, std::chrono::microseconds(200));
  return is_mine;
}

namespace {

struct Body {
  void* (*run)(void*);
  void* argument;
};

/// If one of our threads runs out of memory, its work is lost, but the program goes on.
void* run_guarded(void* given) {
  const Body body = *static_cast<Body*>(given);
  std::free(given);  // NOLINT(cppcoreguidelines-no-malloc): operator new throws
  std::atomic<pid_t>* const place = place_of_thread();
  try {
    body.run(body.argument);
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch)
  }
  if (place != nullptr) *place = -*place;
  --running;
  return nullptr;
}

}  // namespace

bool start_own_thread(pthread_t& thread, const char* name, void* (*body)(void*), void* argument) {
  if (retired) return false;
  auto* const guarded = static_cast<Body*>(std::malloc(sizeof(Body)));  // NOLINT(cppcoreguidelines-no-malloc): as above
  if (guarded == nullptr) return false;
  *guarded = {body, argument};
  sigset_t all{}, before{};
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  // Our threads need more than programs with little stack space per thread give them.
  constexpr std::size_t least_stack = std::size_t{1} << 20U;
  pthread_attr_t attributes;
  std::size_t stack = 0;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_getstacksize(&attributes, &stack);
  ::pthread_attr_setstacksize(&attributes, std::max(stack, least_stack));
  ++running;
  const bool started = ::pthread_create(&thread, &attributes, run_guarded, guarded) == 0;
  ::pthread_attr_destroy(&attributes);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (started) {
    ::pthread_setname_np(thread, name);
  } else {
    --running;
    std::free(guarded);  // NOLINT(cppcoreguidelines-no-malloc)
  }
  return started;
}

bool join_own_thread(pthread_t thread, std::chrono::seconds limit) {
  timespec until{};
  ::clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += limit.count();
  return ::pthread_timedjoin_np(thread, nullptr, &until) == 0;
}

void retire_own_threads() {
  retired = true;
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  const auto is_there = [](const std::atomic<pid_t>& place) {
    const pid_t thread = place;
    return thread > 0 || (thread < 0 && ::syscall(SYS_tgkill, ::getpid(), -thread, 0) == 0);
  };
  while ((running > 0 || std::ranges::any_of(own_threads, is_there)) && std::chrono::steady_clock::now() < until)
    stacks::nap(std::chrono::milliseconds(1));
}

void confine_thread() { confined = true; }

bool is_confined() { return confined || retired; }

bool shares_memory_with_its_parent() { return process != ::getpid(); }

bool only_own_threads_left() {
  std::array<char, 512> text{};
  const int file = ::open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  const ssize_t size = ::read(file, text.data(), text.size());
  ::close(file);
  std::string_view fields(text.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  const std::size_t name_end = fields.rfind(") ");
  if (name_end == std::string_view::npos) return false;
  fields.remove_prefix(name_end + 2);
  if (!fields.starts_with('Z')) return false;  // the state of the main thread
  for (int field = 3; field < 20; ++field) {
    const std::size_t space = fields.find(' ');
    if (space == std::string_view::npos) return false;
    fields.remove_prefix(space + 1);
  }
  unsigned threads = 0;
  std::from_chars(fields.data(), fields.data() + fields.size(), threads);
  return threads == running + 1;  // the main thread is still counted
}

void exit_if_alone() {
  if (!only_own_threads_left()) return;
  // On another thread: exit() waits for ours.
  pthread_t thread{};
  const auto leave = [](void*) -> void* { std::exit(0); };
  if (start_own_thread(thread, "memreel-exit", leave, nullptr)) ::pthread_detach(thread);
}

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
    if (!answer) return false;
    const std::uint32_t action = *answer & SECCOMP_RET_ACTION_FULL;  // without the filter's own data
    return action == SECCOMP_RET_ALLOW || action == SECCOMP_RET_LOG;
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
