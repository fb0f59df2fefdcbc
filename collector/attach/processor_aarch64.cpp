// SPDX-License-Identifier: Apache-2.0
#include <asm/sigcontext.h>
#include <elf.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <ucontext.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cinttypes>
#include <csignal>
#include <cstring>

#include "collector/attach/process.h"
#include "collector/attach/processor.h"

namespace memreel::attach {
namespace {

constexpr std::uint32_t system_call = 0xD4000001, return_to_link = 0xD65F03C0;

// Both pieces begin with a landing pad (BTI) and call through x16, which functions' own landing pads admit. They
// address the page through x19.
// clang-format off
/// The borrowed thread. x0: the page. It waits with ppoll, because other timed waits use the kernel's restart_block,
/// which still belongs to the call in which the thread was stopped.
constexpr std::array<std::uint32_t, 28> borrowed_code{
    0xD503245F,  //         bti    c
    0xAA1F03FD,  //         mov    x29, xzr
    0xAA0003F3,  //         mov    x19, x0
    0xF9401270,  //         ldr    x16, [x19, errno_location]
    0xD63F0200,  //         blr    x16
    0xAA0003F4,  //         mov    x20, x0
    0xB9400295,  //         ldr    w21, [x20]
    0x9100E260,  //         add    x0, x19, thread
    0xAA1F03E1,  //         mov    x1, xzr
    0xF9402262,  //         ldr    x2, [x19, loader]
    0xAA1303E3,  //         mov    x3, x19
    0xF9400270,  //         ldr    x16, [x19, pthread_create]
    0xD63F0200,  //         blr    x16
    0xB9005660,  //         str    w0, [x19, news.thread_refused]
    0xB9000295,  //         str    w21, [x20]
    0x52800028,  //         mov    w8, 1
    0x91014269,  //         add    x9, x19, news.started
    0x889FFD28,  //         stlr   w8, [x9]
    0xAA1F03E0,  //         mov    x0, xzr
    0xAA1F03E1,  //         mov    x1, xzr
    0x9101A262,  //         add    x2, x19, patience
    0xAA1F03E3,  //         mov    x3, xzr
    0xD2800928,  //         mov    x8, SYS_ppoll
    0xD4000001,  //         svc    0
    0xF9402669,  //         ldr    x9, [x19, frame]
    0x9100013F,  //         mov    sp, x9
    0xD2801168,  //         mov    x8, SYS_rt_sigreturn
    0xD4000001,  //         svc    0
};
static_assert(SYS_ppoll == 73 && SYS_rt_sigreturn == 139);

/// The thread that the borrowed thread starts. x0: the page.
constexpr std::array<std::uint32_t, 30> loading_code{
    0xD503245F,  //         bti    c
    0xA9BE7BFD,  //         stp    x29, x30, [sp, -32]!
    0x910003FD,  //         mov    x29, sp
    0xF9000BF3,  //         str    x19, [sp, 16]
    0xAA0003F3,  //         mov    x19, x0
    0x91030260,  //         add    x0, x19, library
    0x52800041,  //         mov    w1, RTLD_NOW
    0xF9400670,  //         ldr    x16, [x19, dlopen]
    0xD63F0200,  //         blr    x16
    0xB4000160,  //         cbz    x0, failed
    0x91020261,  //         add    x1, x19, visit
    0xF9400A70,  //         ldr    x16, [x19, dlsym]
    0xD63F0200,  //         blr    x16
    0xB40000E0,  //         cbz    x0, failed
    0xAA0003F0,  //         mov    x16, x0
    0xF9401660,  //         ldr    x0, [x19, page]
    0xF9401A61,  //         ldr    x1, [x19, size]
    0xF9400BF3,  //         ldr    x19, [sp, 16]
    0xA8C27BFD,  //         ldp    x29, x30, [sp], 32
    0xD61F0200,  //         br     x16
    0xF9400E70,  // failed: ldr    x16, [x19, dlerror]
    0xD63F0200,  //         blr    x16
    0xF9003260,  //         str    x0, [x19, news.failure]
    0x52800028,  //         mov    w8, 1
    0x91016269,  //         add    x9, x19, news.failed
    0x889FFD28,  //         stlr   w8, [x9]
    0xAA1F03E0,  //         mov    x0, xzr
    0xF9400BF3,  //         ldr    x19, [sp, 16]
    0xA8C27BFD,  //         ldp    x29, x30, [sp], 32
    0xD65F03C0,  //         ret
};
// clang-format on

/// What rt_sigreturn reads at the stack pointer (arch/arm64/kernel/signal.c).
struct SignalFrame {
  siginfo_t info;
  ucontext_t context;
};
static_assert(sizeof(siginfo_t) == 128 && offsetof(ucontext_t, uc_sigmask) == 40 &&
              offsetof(ucontext_t, uc_mcontext) == 176);

/// Makes the kernel leave the thread's alternate signal stack unchanged.
constexpr int no_such_flag = 7;

/// In a frame's processor state: the last branch's kind, which the next instruction must admit as its source.
constexpr std::uint64_t branch_kind = 3ULL << 10U;

// What the kernel returns for NT_ARM_SVE: this header, then the state of the vector registers in one of two forms
// (arch/arm64/include/uapi/asm/ptrace.h, whose names collide with those of the C library).
constexpr unsigned scalable_registers = 0x405;
struct ScalableHeader {
  std::uint32_t size, largest_size;
  std::uint16_t vector_length, longest_vector;
  std::uint16_t flags;  // bit 0: scalable registers, else a user_fpsimd_state
  std::uint16_t reserved;
};
static_assert(sizeof(ScalableHeader) == 16);

/// Floating-point and vector registers in the form of a frame.
struct VectorState {
  fpsimd_context plain{};
  std::vector<std::byte> scalable;  // a record of its own, or nothing
};

VectorState vectors_of(std::span<const std::byte> extended) {
  VectorState state;
  state.plain.head = {.magic = FPSIMD_MAGIC, .size = sizeof(fpsimd_context)};
  const auto take_plain = [&](std::span<const std::byte> from) {
    user_fpsimd_struct registers{};
    std::memcpy(&registers, from.data(), std::min(from.size(), sizeof registers));
    std::memcpy(&state.plain.vregs, &registers.vregs, sizeof state.plain.vregs);
    state.plain.fpsr = registers.fpsr;
    state.plain.fpcr = registers.fpcr;
  };
  if (extended.size() <= sizeof(user_fpsimd_struct)) {
    take_plain(extended);
    return state;
  }
  ScalableHeader header{};
  std::memcpy(&header, extended.data(), sizeof header);
  const std::span<const std::byte> registers = extended.subspan(sizeof header);
  const std::size_t quadwords = header.vector_length / SVE_VQ_BYTES;
  const std::size_t size = SVE_SIG_REGS_SIZE(quadwords);
  const std::size_t status_at = (size + SVE_VQ_BYTES - 1) / SVE_VQ_BYTES * SVE_VQ_BYTES;
  if ((header.flags & 1U) == 0 || registers.size() < status_at + 2 * sizeof(std::uint32_t)) {
    take_plain(registers);
    return state;
  }
  for (std::size_t i = 0; i < std::size(state.plain.vregs); ++i)
    std::memcpy(&state.plain.vregs[i], registers.data() + i * header.vector_length, sizeof state.plain.vregs[i]);
  std::memcpy(&state.plain.fpsr, registers.data() + status_at, sizeof state.plain.fpsr);
  std::memcpy(&state.plain.fpcr, registers.data() + status_at + sizeof state.plain.fpsr, sizeof state.plain.fpcr);

  sve_context record{};
  const std::size_t whole = (SVE_SIG_CONTEXT_SIZE(quadwords) + 15) / 16 * 16;
  record.head = {.magic = SVE_MAGIC, .size = static_cast<std::uint32_t>(whole)};
  record.vl = header.vector_length;
  // Longer vectors need a second area; without it only their upper parts are lost.
  if (whole + sizeof(fpsimd_context) + sizeof(_aarch64_ctx) > sizeof(mcontext_t::__reserved)) return state;
  state.scalable.resize(whole);
  std::memcpy(state.scalable.data(), &record, sizeof record);
  std::memcpy(state.scalable.data() + SVE_SIG_REGS_OFFSET, registers.data(), size);
  return state;
}

std::optional<std::vector<std::byte>> register_set(pid_t thread, unsigned kind) {
  constexpr std::size_t largest = 16U << 10U;
  std::vector<std::byte> content(largest);
  iovec into{.iov_base = content.data(), .iov_len = content.size()};
  // NOLINTNEXTLINE: ptrace takes numbers so
  if (::ptrace(PTRACE_GETREGSET, thread, reinterpret_cast<void*>(std::uintptr_t{kind}), &into) != 0)
    return std::nullopt;
  content.resize(into.iov_len);
  return content;
}

bool is_system_call_at(const RemoteProcess& process, std::uint64_t address) {
  return process.read<std::uint32_t>(address) == system_call;
}

bool was_interrupted(const user_regs_struct& registers) { return call_result(registers) == -EINTR; }

}  // namespace

std::uint64_t stack_pointer(const user_regs_struct& registers) { return registers.sp; }

std::uint64_t program_counter(const user_regs_struct& registers) { return registers.pc; }

std::uint64_t link_register(const user_regs_struct& registers) { return registers.regs[30]; }

/// The kernel maps what nobody asked for elsewhere, such as the code that handlers return to, below 2^48.
std::uint64_t without_signature(std::uint64_t return_address) { return return_address & ((1ULL << 48U) - 1); }

std::int64_t call_result(const user_regs_struct& registers) { return static_cast<std::int64_t>(registers.regs[0]); }

/// The kernel shows a call that it restarts as not begun: the thread is at the instruction that makes it.
std::optional<long> call_of(const RemoteProcess& process, const user_regs_struct& registers) {
  const bool at_call = is_system_call_at(process, registers.pc) ||
                       (was_interrupted(registers) && is_system_call_at(process, registers.pc - sizeof system_call));
  const auto number = static_cast<long>(registers.regs[8]);
  return at_call && number >= 0 ? std::optional(number) : std::nullopt;
}

std::optional<SeenCall> seen_call(pid_t process, pid_t thread) {
  const std::string line = read_proc(process, "task/" + std::to_string(thread) + "/syscall").value_or("");
  SeenCall call;
  auto& [a, b, c, d, e, f] = call.arguments;
  const int fields = std::sscanf(
      line.c_str(), "%ld %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64,
      &call.number, &a, &b, &c, &d, &e, &f, &call.stack_pointer, &call.program_counter);
  return fields == 9 && call.number >= 0 ? std::optional(call) : std::nullopt;
}

/// Only of calls that the kernel doesn't restart, whose first argument is lost in their result.
user_regs_struct with_call_begun_again(const user_regs_struct& registers, const std::optional<SeenCall>& seen) {
  user_regs_struct again = registers;
  if (!seen || !was_interrupted(registers) || seen->program_counter != registers.pc ||
      seen->stack_pointer != registers.sp || seen->number != static_cast<long>(registers.regs[8]))
    return again;
  again.regs[0] = seen->arguments[0];
  again.pc -= sizeof system_call;
  return again;
}

user_regs_struct with_sleep_continued(const user_regs_struct& registers, const std::optional<SeenCall>& seen) {
  user_regs_struct continued = registers;
  if (!seen || seen->program_counter != registers.pc + sizeof system_call || seen->stack_pointer != registers.sp ||
      seen->number != static_cast<long>(registers.regs[8]) || seen->arguments[0] != registers.regs[0])
    return continued;
  constexpr std::uint64_t futex_options = 128 | 256, futex_wait = 0;
  const bool relative_sleep =
      seen->number == SYS_nanosleep || (seen->number == SYS_clock_nanosleep && seen->arguments[1] == 0) ||
      (seen->number == SYS_futex && (seen->arguments[1] & ~futex_options) == futex_wait && seen->arguments[3] != 0);
  if (relative_sleep) continued.regs[8] = SYS_restart_syscall;
  return continued;
}

user_regs_struct at_call(const user_regs_struct& registers, std::uint64_t code, std::uint64_t stack, std::uint64_t back,
                         long number, std::span<const std::uint64_t, 6> arguments) {
  user_regs_struct at = registers;
  at.pc = code;
  at.sp = stack;
  at.pstate &= ~branch_kind;
  std::ranges::copy(arguments, std::begin(at.regs));
  at.regs[8] = static_cast<std::uint64_t>(number);
  at.regs[30] = back;
  return at;
}

user_regs_struct at_function(const user_regs_struct& registers, std::uint64_t entry, std::uint64_t stack,
                             std::uint64_t argument) {
  user_regs_struct at = registers;
  at.pc = entry;
  at.sp = stack;
  at.pstate &= ~branch_kind;
  at.regs[0] = argument;
  at.regs[30] = 0;
  return at;
}

std::optional<std::vector<std::byte>> extended_state(pid_t thread) {
  auto scalable = register_set(thread, scalable_registers);
  return scalable ? scalable : register_set(thread, NT_FPREGSET);
}

bool set_extended_state(pid_t thread, std::span<const std::byte> extended) {
  const unsigned kind = extended.size() > sizeof(user_fpsimd_struct) ? scalable_registers : unsigned{NT_FPREGSET};
  std::vector<std::byte> copy(extended.begin(), extended.end());
  iovec from{.iov_base = copy.data(), .iov_len = copy.size()};
  // NOLINTNEXTLINE: ptrace takes numbers so
  return ::ptrace(PTRACE_SETREGSET, thread, reinterpret_cast<void*>(std::uintptr_t{kind}), &from) == 0;
}

std::optional<int> rank_of_call(long call) {
  switch (call) {
    case SYS_ppoll:
    case SYS_nanosleep:
    case SYS_clock_nanosleep:
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
    case SYS_epoll_pwait:
      return 2;
    default:
      return std::nullopt;
  }
}

std::optional<std::size_t> find_system_call(std::span<const std::byte> code) {
  for (std::size_t at = 0; at + 2 * sizeof system_call <= code.size(); at += sizeof system_call) {
    std::array<std::uint32_t, 2> words{};
    std::memcpy(words.data(), code.data() + at, sizeof words);
    if (words == std::array{system_call, return_to_link}) return at;
  }
  return std::nullopt;
}

/// The kernel's own, in the vDSO: "mov x8, SYS_rt_sigreturn; svc 0".
std::uint64_t find_handlers_return(const RemoteProcess& process, std::span<const Mapping> mappings) {
  constexpr std::array<std::uint32_t, 2> wanted{0xD2801168, system_call};
  for (const Mapping& mapping : mappings) {
    if (mapping.name != "[vdso]") continue;
    std::vector<std::uint32_t> code((mapping.end - mapping.begin) / sizeof(std::uint32_t));
    if (!process.read(mapping.begin, std::as_writable_bytes(std::span(code)))) continue;
    const auto found = std::search(code.begin(), code.end(), wanted.begin(), wanted.end());
    if (found != code.end())
      return mapping.begin + static_cast<std::uint64_t>(found - code.begin()) * sizeof(std::uint32_t);
  }
  return 0;
}

BootstrapCode bootstrap_code() {
  return {.bootstrap = std::as_bytes(std::span(borrowed_code)), .loading = std::as_bytes(std::span(loading_code))};
}

std::size_t frame_size(const ThreadState& /*thread*/) { return sizeof(SignalFrame); }

void put_frame(std::span<std::byte> bytes, std::size_t offset, std::uint64_t /*address*/, const ThreadState& thread) {
  SignalFrame frame{};
  frame.context.uc_stack.ss_flags = no_such_flag;
  std::memcpy(&frame.context.uc_sigmask, &thread.signal_mask, sizeof thread.signal_mask);
  mcontext_t& machine = frame.context.uc_mcontext;
  std::ranges::copy(thread.registers.regs, std::begin(machine.regs));
  machine.sp = thread.registers.sp;
  machine.pc = thread.registers.pc;
  machine.pstate = thread.registers.pstate;
  // Records, ended by an empty one.
  const VectorState vectors = vectors_of(thread.extended);
  std::memcpy(machine.__reserved, &vectors.plain, sizeof vectors.plain);
  std::memcpy(machine.__reserved + sizeof vectors.plain, vectors.scalable.data(), vectors.scalable.size());
  std::memcpy(bytes.data() + offset, &frame, sizeof frame);
}

StackRules stack_rules() { return {.red_zone = 128, .pushed_return = 0}; }

}  // namespace memreel::attach
