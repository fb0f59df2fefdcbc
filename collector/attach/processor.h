// SPDX-License-Identifier: Apache-2.0
// What of attaching depends on the processor: registers, system calls, machine code, and the frames from which the
// kernel restores a thread. One file per architecture, processor_ARCHITECTURE.cpp, defines it.
#pragma once

#include <sys/types.h>
#include <sys/user.h>

#include <array>
#include <span>

#include "collector/attach/process.h"

namespace memreel::attach {

// Registers.

std::uint64_t stack_pointer(const user_regs_struct& registers);
std::uint64_t program_counter(const user_regs_struct& registers);

/// Where a function that has called none returns to; 0 if that is only on the stack.
std::uint64_t link_register(const user_regs_struct& registers);
/// A return address as the program kept it, without a signature by pointer authentication.
std::uint64_t without_signature(std::uint64_t return_address);

/// What the system call that just ended returned: a negative errno on failure.
std::int64_t call_result(const user_regs_struct& registers);

/// The system call that a stopped thread is in or about to make; none if it runs code of the program.
std::optional<long> call_of(const RemoteProcess& process, const user_regs_struct& registers);

/// The system call that a thread was in before it was stopped, as /proc tells it.
struct SeenCall {
  long number = -1;
  std::array<std::uint64_t, 6> arguments{};
  std::uint64_t stack_pointer = 0, program_counter = 0;
};
/// None: it ran, or its call can't be read.
std::optional<SeenCall> seen_call(pid_t process, pid_t thread);

/// The state that restarts a system call interrupted by stopping the thread, as the kernel does after a signal handler
/// with SA_RESTART; any other state is returned unchanged. `seen`: of the same thread before it was stopped.
user_regs_struct with_call_begun_again(const user_regs_struct& registers,
                                       const std::optional<SeenCall>& seen = std::nullopt);

/// The state that continues an interrupted sleep for the rest of its time, if stopping the thread interrupted one and
/// `registers`, which restart it, would begin it anew; else the same.
user_regs_struct with_sleep_continued(const user_regs_struct& registers, const std::optional<SeenCall>& seen);

/// About to execute the instructions at `code`, found by find_system_call(), which then return to `back`.
user_regs_struct at_call(const user_regs_struct& registers, std::uint64_t code, std::uint64_t stack, std::uint64_t back,
                         long number, std::span<const std::uint64_t, 6> arguments);

/// At the entry of a function with one argument.
user_regs_struct at_function(const user_regs_struct& registers, std::uint64_t entry, std::uint64_t stack,
                             std::uint64_t argument);

/// Floating-point and vector registers of a stopped thread, as the kernel returns them; none if it refuses.
std::optional<std::vector<std::byte>> extended_state(pid_t thread);
bool set_extended_state(pid_t thread, std::span<const std::byte> extended);

// System calls.

/// How suitable a call is to be interrupted, the lowest first; none: it could not be restarted, or a lock may be held
/// during it.
std::optional<int> rank_of_call(long call);

// Machine code.

/// The position of instructions that make a system call and return, in a function of the C library that does little
/// else.
std::optional<std::size_t> find_system_call(std::span<const std::byte> code);

/// The address of code that makes the rt_sigreturn system call, which signal handlers return to; 0 if not found.
std::uint64_t find_handlers_return(const RemoteProcess& process, std::span<const Mapping> mappings);

/// Code for any address; its only argument is the address of a PageLayout (bootstrap.h).
struct BootstrapCode {
  std::span<const std::byte> bootstrap;  // the borrowed thread: starts another one, waits, returns by rt_sigreturn
  std::span<const std::byte> loading;    // that other thread: loads the library and calls its function
};
BootstrapCode bootstrap_code();

// Frames as the kernel pushes them for a signal handler.

/// Bytes of a thread's frame, an upper limit.
std::size_t frame_size(const ThreadState& thread);

/// At `offset` of `bytes`, which is at `address` of the process, a multiple of 64.
void put_frame(std::span<std::byte> bytes, std::size_t offset, std::uint64_t address, const ThreadState& thread);

/// Bytes below the stack pointer that the thread may use, and those between the stack pointer at a function's entry and
/// the frame that it returns to.
struct StackRules {
  std::size_t red_zone, pushed_return;
};
StackRules stack_rules();

}  // namespace memreel::attach
