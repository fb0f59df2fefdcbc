// SPDX-License-Identifier: Apache-2.0
#include <elf.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <initializer_list>

#include "collector/attach/bootstrap.h"
#include "collector/attach/processor.h"

namespace memreel::attach {
namespace {

constexpr std::array<std::byte, 256> code(std::initializer_list<unsigned char> bytes) {
  std::array<std::byte, 256> code{};
  std::size_t i = 0;
  for (const unsigned char byte : bytes) code[i++] = std::byte{byte};
  return code;
}

// clang-format off
/// The borrowed thread. rdi: the page, which both pieces address through rbx. It waits with ppoll, because other timed waits use the kernel's restart_block,
/// which still belongs to the call in which the thread was stopped.
constexpr auto borrowed_code = code({
    0x48, 0x89, 0xFB,                    //         mov    rbx, rdi
    0xFC,                                //         cld
    0xFF, 0x53, 0x20,                    //         call   [rbx + errno_location]
    0x49, 0x89, 0xC4,                    //         mov    r12, rax
    0x45, 0x8B, 0x2C, 0x24,              //         mov    r13d, [r12]
    0x48, 0x8D, 0x7B, 0x38,              //         lea    rdi, [rbx + thread]
    0x31, 0xF6,                          //         xor    esi, esi
    0x48, 0x8B, 0x53, 0x40,              //         mov    rdx, [rbx + loader]
    0x48, 0x89, 0xD9,                    //         mov    rcx, rbx
    0xFF, 0x13,                          //         call   [rbx + pthread_create]
    0x89, 0x43, 0x54,                    //         mov    [rbx + news.thread_refused], eax
    0x45, 0x89, 0x2C, 0x24,              //         mov    [r12], r13d
    0xC7, 0x43, 0x50, 1, 0, 0, 0,        //         mov    dword [rbx + news.started], 1
    0xB8, 0x0F, 1, 0, 0,                 //         mov    eax, SYS_ppoll
    0x31, 0xFF,                          //         xor    edi, edi
    0x31, 0xF6,                          //         xor    esi, esi
    0x48, 0x8D, 0x53, 0x68,              //         lea    rdx, [rbx + patience]
    0x45, 0x31, 0xD2,                    //         xor    r10d, r10d
    0x0F, 0x05,                          //         syscall
    0x48, 0x8B, 0x63, 0x48,              //         mov    rsp, [rbx + frame]
    0xB8, 0x0F, 0, 0, 0,                 //         mov    eax, SYS_rt_sigreturn
    0x0F, 0x05,                          //         syscall
});

/// The thread that the borrowed thread starts. rdi: the page.
constexpr auto loading_code = code({
    0x53,                                //         push   rbx
    0x48, 0x89, 0xFB,                    //         mov    rbx, rdi
    0x48, 0x8D, 0xBB, 0xC0, 0, 0, 0,     //         lea    rdi, [rbx + library]
    0xBE, 2, 0, 0, 0,                    //         mov    esi, RTLD_NOW
    0xFF, 0x53, 0x08,                    //         call   [rbx + dlopen]
    0x48, 0x85, 0xC0,                    //         test   rax, rax
    0x74, 0x1F,                          //         jz     failed
    0x48, 0x89, 0xC7,                    //         mov    rdi, rax
    0x48, 0x8D, 0xB3, 0x80, 0, 0, 0,     //         lea    rsi, [rbx + visit]
    0xFF, 0x53, 0x10,                    //         call   [rbx + dlsym]
    0x48, 0x85, 0xC0,                    //         test   rax, rax
    0x74, 0x0D,                          //         jz     failed
    0x48, 0x8B, 0x7B, 0x28,              //         mov    rdi, [rbx + page]
    0x48, 0x8B, 0x73, 0x30,              //         mov    rsi, [rbx + size]
    0x5B,                                //         pop    rbx
    0xFF, 0xE0,                          //         jmp    rax
    0x90, 0x90,                          //         nop
    0xFF, 0x53, 0x18,                    // failed: call   [rbx + dlerror]
    0x48, 0x89, 0x43, 0x60,              //         mov    [rbx + news.failure], rax
    0xC7, 0x43, 0x58, 1, 0, 0, 0,        //         mov    dword [rbx + news.failed], 1
    0x31, 0xC0,                          //         xor    eax, eax
    0x5B,                                //         pop    rbx
    0xC3,                                //         ret
});
// clang-format on

/// What rt_sigreturn reads at the stack pointer: the kernel's struct ucontext (arch/x86/include/uapi/asm/sigcontext.h).
struct SignalFrame {
  std::uint64_t flags = 0, link = 0;
  std::uint64_t stack_pointer = 0, stack_flags = 0, stack_size = 0;
  std::uint64_t r8, r9, r10, r11, r12, r13, r14, r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, eflags;
  std::uint16_t cs, gs = 0, fs = 0, ss;
  std::uint64_t error = 0, trap = 0, old_mask = 0, cr2 = 0;
  std::uint64_t extended;  // address
  std::array<std::uint64_t, 8> reserved{};
  std::uint64_t signal_mask;
};
static_assert(sizeof(SignalFrame) == 40 + 32 * 8 + 8);

/// In the unused bytes of the legacy area: marks that extended state follows, and its size (struct _fpx_sw_bytes).
struct ExtendedNote {
  std::uint32_t magic, extended_size;
  std::uint64_t features;
  std::uint32_t size;
  std::array<std::uint32_t, 7> padding;
};
constexpr std::size_t note_offset = 464;
constexpr std::uint32_t first_magic = 0x46505853, second_magic = 0x46505845;
constexpr std::uint64_t has_extended = 1;  // UC_FP_XSTATE
constexpr std::uint64_t has_ss = 2 | 4;    // UC_SIGCONTEXT_SS, UC_STRICT_RESTORE_SS

/// Makes the kernel leave the thread's alternate signal stack unchanged.
constexpr std::uint64_t no_such_flag = 7;

/// The state of matrix registers (AMX) comes after all other state, takes kilobytes and is present in few threads; the
/// kernel refuses frames that are larger than a thread's own.
constexpr std::size_t without_matrices = 2752;
constexpr std::uint64_t matrices = 3ULL << 17U;

SignalFrame frame_of(const ThreadState& thread, std::uint64_t extended) {
  const user_regs_struct r = with_call_begun_again(thread.registers);
  SignalFrame frame{};
  frame.flags = has_extended | has_ss;
  frame.stack_flags = no_such_flag;
  frame.r8 = r.r8, frame.r9 = r.r9, frame.r10 = r.r10, frame.r11 = r.r11;
  frame.r12 = r.r12, frame.r13 = r.r13, frame.r14 = r.r14, frame.r15 = r.r15;
  frame.rdi = r.rdi, frame.rsi = r.rsi, frame.rbp = r.rbp, frame.rbx = r.rbx;
  frame.rdx = r.rdx, frame.rax = r.rax, frame.rcx = r.rcx, frame.rsp = r.rsp;
  frame.rip = r.rip, frame.eflags = r.eflags;
  frame.cs = static_cast<std::uint16_t>(r.cs), frame.ss = static_cast<std::uint16_t>(r.ss);
  frame.extended = extended;
  frame.signal_mask = thread.signal_mask;
  return frame;
}

/// The state as in the kernel's frames, cut to what any thread may have.
std::vector<std::byte> extended_of(const ThreadState& thread) {
  std::vector<std::byte> extended = thread.extended;
  std::uint64_t used = 0;  // XSTATE_BV
  std::memcpy(&used, extended.data() + 512, sizeof used);
  if (extended.size() > without_matrices) {
    extended.resize(without_matrices);
    used &= ~matrices;
  }
  std::memcpy(extended.data() + 512, &used, sizeof used);
  ExtendedNote note{};
  note.magic = first_magic;
  note.extended_size = static_cast<std::uint32_t>(extended.size() + sizeof second_magic);
  note.features = ~matrices;  // those not in use are reset to their initial state
  note.size = static_cast<std::uint32_t>(extended.size());
  std::memcpy(extended.data() + note_offset, &note, sizeof note);
  extended.resize(extended.size() + sizeof second_magic);
  std::memcpy(extended.data() + note.size, &second_magic, sizeof second_magic);
  return extended;
}

constexpr std::size_t extended_offset = (sizeof(SignalFrame) + 63) / 64 * 64;

}  // namespace

std::uint64_t stack_pointer(const user_regs_struct& registers) { return registers.rsp; }

std::uint64_t program_counter(const user_regs_struct& registers) { return registers.rip; }

std::uint64_t link_register(const user_regs_struct& /*registers*/) { return 0; }

std::uint64_t without_signature(std::uint64_t return_address) { return return_address; }

std::int64_t call_result(const user_regs_struct& registers) { return static_cast<std::int64_t>(registers.rax); }

std::optional<long> call_of(const RemoteProcess& /*process*/, const user_regs_struct& registers) {
  const auto call = static_cast<long>(registers.orig_rax);
  return call >= 0 ? std::optional(call) : std::nullopt;
}

/// The registers tell everything.
std::optional<SeenCall> seen_call(pid_t /*process*/, pid_t /*thread*/) { return std::nullopt; }

user_regs_struct with_call_begun_again(const user_regs_struct& registers, const std::optional<SeenCall>& /*seen*/) {
  // Kernel-internal error numbers (include/linux/errno.h), and EINTR of calls that the kernel never restarts.
  constexpr std::array<std::int64_t, 5> interrupted{-512, -513, -514, -516, -EINTR};
  const auto result = static_cast<std::int64_t>(registers.rax);
  user_regs_struct again = registers;
  if (static_cast<std::int64_t>(registers.orig_rax) < 0) return again;
  for (const std::int64_t code : interrupted) {
    if (result != code) continue;
    again.rax = registers.orig_rax;
    again.rip -= 2;  // to the instruction "syscall"
    again.orig_rax = ~0ULL;
  }
  return again;
}

/// The kernel does this by itself.
user_regs_struct with_sleep_continued(const user_regs_struct& registers, const std::optional<SeenCall>& /*seen*/) {
  return registers;
}

user_regs_struct at_call(const user_regs_struct& registers, std::uint64_t code, std::uint64_t stack,
                         std::uint64_t /*back: on the stack*/, long number,
                         std::span<const std::uint64_t, 6> arguments) {
  user_regs_struct at = registers;
  at.rip = code;
  at.rsp = stack;
  at.rax = static_cast<unsigned long long>(number);
  at.rdi = arguments[0], at.rsi = arguments[1], at.rdx = arguments[2];
  at.r10 = arguments[3], at.r8 = arguments[4], at.r9 = arguments[5];
  at.orig_rax = ~0ULL;  // the kernel must not restart a call
  return at;
}

user_regs_struct at_function(const user_regs_struct& registers, std::uint64_t entry, std::uint64_t stack,
                             std::uint64_t argument) {
  user_regs_struct at = registers;
  at.rip = entry;
  at.rsp = stack;
  at.rdi = argument;
  at.orig_rax = ~0ULL;
  return at;
}

std::optional<std::vector<std::byte>> extended_state(pid_t thread) {
  constexpr std::size_t largest = 16U << 10U;
  std::vector<std::byte> extended(largest);
  iovec into{.iov_base = extended.data(), .iov_len = extended.size()};
  // NOLINTNEXTLINE: ptrace takes numbers so
  if (::ptrace(PTRACE_GETREGSET, thread, reinterpret_cast<void*>(std::uintptr_t{NT_X86_XSTATE}), &into) != 0)
    return std::nullopt;
  extended.resize(into.iov_len);
  return extended;
}

bool set_extended_state(pid_t thread, std::span<const std::byte> extended) {
  std::vector<std::byte> copy(extended.begin(), extended.end());
  iovec from{.iov_base = copy.data(), .iov_len = copy.size()};
  // NOLINTNEXTLINE: ptrace takes numbers so
  return ::ptrace(PTRACE_SETREGSET, thread, reinterpret_cast<void*>(std::uintptr_t{NT_X86_XSTATE}), &from) == 0;
}

std::optional<int> rank_of_call(long call) {
  switch (call) {
    case SYS_poll:
    case SYS_ppoll:
    case SYS_nanosleep:
    case SYS_clock_nanosleep:
    case SYS_select:
    case SYS_pselect6:
    case SYS_wait4:
    case SYS_waitid:
    case SYS_restart_syscall:
      return 0;
    case SYS_futex:
      return 1;
    case SYS_read:
    case SYS_recvfrom:
    case SYS_recvmsg:
    case SYS_accept:
    case SYS_accept4:
    case SYS_epoll_wait:
    case SYS_epoll_pwait:
      return 2;
    default:
      return std::nullopt;
  }
}

std::optional<std::size_t> find_system_call(std::span<const std::byte> code) {
  constexpr std::array wanted{std::byte{0x0F}, std::byte{0x05}, std::byte{0xC3}};  // syscall; ret
  const auto found = std::search(code.begin(), code.end(), wanted.begin(), wanted.end());
  if (found == code.end()) return std::nullopt;
  return static_cast<std::size_t>(found - code.begin());
}

/// The C library's code "mov rax, SYS_rt_sigreturn; syscall".
std::uint64_t find_handlers_return(const RemoteProcess& process, std::span<const Mapping> mappings) {
  constexpr std::array<unsigned char, 9> wanted{0x48, 0xC7, 0xC0, 0x0F, 0, 0, 0, 0x0F, 0x05};
  for (const Mapping& mapping : mappings) {
    if (!mapping.executable || !(mapping.file().starts_with("libc.so") || mapping.file().starts_with("libc-2.")))
      continue;
    std::vector<std::byte> code(mapping.end - mapping.begin);
    if (!process.read(mapping.begin, code)) continue;
    const auto found = std::search(code.begin(), code.end(), wanted.begin(), wanted.end(),
                                   [](std::byte a, unsigned char b) { return std::to_integer<unsigned char>(a) == b; });
    if (found != code.end()) return mapping.begin + static_cast<std::uint64_t>(found - code.begin());
  }
  return 0;
}

BootstrapCode bootstrap_code() { return {.bootstrap = borrowed_code, .loading = loading_code}; }

std::size_t frame_size(const ThreadState& thread) { return extended_offset + thread.extended.size() + 64; }

void put_frame(std::span<std::byte> bytes, std::size_t offset, std::uint64_t address, const ThreadState& thread) {
  const std::vector<std::byte> extended = extended_of(thread);
  const SignalFrame frame = frame_of(thread, address + extended_offset);
  std::memcpy(bytes.data() + offset, &frame, sizeof frame);
  std::memcpy(bytes.data() + offset + extended_offset, extended.data(), extended.size());
}

StackRules stack_rules() { return {.red_zone = 128, .pushed_return = sizeof(std::uint64_t)}; }

}  // namespace memreel::attach
