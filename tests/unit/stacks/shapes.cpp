// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/stacks/shapes.h"

#include <alloca.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <tuple>

namespace shapes {
namespace {

// The code after a call keeps it from being a tail call, and its results from being removed.
void keep(void* p) { asm volatile("" : : "r"(p) : "memory"); }

[[gnu::noinline]] void leaf(Callback callback, void* argument) {
  callback(argument);
  keep(&argument);
}

[[gnu::noinline]] void recursion(int depth, Callback callback, void* argument) {
  if (depth == 0)
    leaf(callback, argument);
  else
    recursion(depth - 1, callback, argument);
  keep(&depth);
}
void recursive(Callback callback, void* argument) { recursion(40, callback, argument); }

[[gnu::noinline]] void pushes_all_registers(Callback callback, void* argument) {
  leaf(callback, argument);
#if defined(__x86_64__)
  asm volatile("" : : : "rbx", "r12", "r13", "r14", "r15", "memory");
#else
  asm volatile("" : : : "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28", "memory");
#endif
}

[[gnu::noinline]] void uses_frame_pointer_for_data(Callback callback, void* argument) {
#if defined(__x86_64__) && defined(SHAPES_USE_RBP)
  asm volatile("movq $0x1234567, %%rbp" : : : "rbp");
#endif
  pushes_all_registers(callback, argument);
  keep(&argument);
}

[[gnu::noinline]] void dynamic_array(Callback callback, void* argument) {
  void* volatile size = argument;
  keep(alloca(16 + (reinterpret_cast<std::size_t>(size) & 0xFF0U)));
  pushes_all_registers(callback, argument);
  keep(&argument);
}

[[gnu::noinline]] void realigned(Callback callback, void* argument) {
  alignas(128) std::array<char, 300> data;
  keep(&data);
  pushes_all_registers(callback, argument);
  keep(&data);
}

[[gnu::noinline]] void realigned_with_dynamic_array(Callback callback, void* argument) {
  alignas(64) std::array<char, 100> data;
  keep(&data);
  dynamic_array(callback, argument);
  keep(&data);
}

[[gnu::noinline]] void large(Callback callback, void* argument) {
  std::array<char, 40'000> data;
  keep(&data);
  pushes_all_registers(callback, argument);
  keep(&data);
}

/// Larger than a remembered rule can express.
[[gnu::noinline]] void huge(Callback callback, void* argument) {
  std::array<char, 300'000> data;
  keep(&data);
  realigned_with_dynamic_array(callback, argument);
  keep(&data);
}

[[gnu::noinline]] void many_arguments(int, int, int, int, int, int, int, int, int, Callback callback, void* argument) {
  leaf(callback, argument);
  keep(&argument);
}
[[gnu::noinline]] void pushes_arguments(Callback callback, void* argument) {
  many_arguments(1, 2, 3, 4, 5, 6, 7, 8, 9, callback, argument);
  keep(&argument);
}

[[gnu::noinline]] void lambda(Callback callback, void* argument) {
  const std::function<void(int)> function = [&](int depth) {
    if (depth != 0) pushes_all_registers(callback, argument);
  };
  function(1);
}

[[noreturn, gnu::noinline]] void never_returns(Callback callback, void* argument) {
  callback(argument);
  throw 1;
}
[[noreturn, gnu::noinline]] void ends_with_a_call(Callback callback, void* argument) {
  never_returns(callback, argument);
}
[[gnu::noinline]] void calls_what_never_returns(Callback callback, void* argument) {
  try {
    ends_with_a_call(callback, argument);
  } catch (int) {
  }
}

[[gnu::noinline]] void early_return(Callback callback, void* argument) {
  // The epilogue in the middle makes the tables remember and restore their state.
  if (argument == nullptr) return;
  std::array<char, 64> data;
  keep(&data);
  leaf(callback, argument);
  if (data[3] == 'x') return;
  leaf(callback, argument);
  keep(&data);
}

/// The C library calls back: through a procedure linkage table, and through code compiled by others.
void from_the_c_library(Callback callback, void* argument) {
  struct Call {
    Callback callback;
    void* argument;
  };
  static thread_local Call call;
  call = {callback, argument};
  const int key = 7;
  const std::array<int, 2> numbers{7, 8};
  std::ignore = bsearch(&key, numbers.data(), numbers.size(), sizeof key, [](const void*, const void*) {
    leaf(call.callback, call.argument);
    return 0;
  });
}

Callback signal_callback = nullptr;
void* signal_argument = nullptr;

void on_signal(int) { leaf(signal_callback, signal_argument); }

void with_handler(int flags, Callback callback, void* argument) {
  signal_callback = callback;
  signal_argument = argument;
  struct sigaction action {
  }, before{};
  action.sa_handler = on_signal;
  action.sa_flags = flags;
  sigaction(SIGUSR1, &action, &before);
  raise(SIGUSR1);
  sigaction(SIGUSR1, &before, nullptr);
}
[[gnu::noinline]] void signal_handler(Callback callback, void* argument) { with_handler(0, callback, argument); }

#if defined(__x86_64__)
/// Interrupted at its first instruction, before anything is pushed.
void illegal(int, siginfo_t*, void* context) {
  leaf(signal_callback, signal_argument);
  static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP] += 2;
}
[[gnu::noinline]] void at_first_instruction() { asm volatile("ud2"); }
[[gnu::noinline]] void interrupted_function(Callback callback, void* argument) {
  signal_callback = callback;
  signal_argument = argument;
  struct sigaction action {
  }, before{};
  action.sa_sigaction = illegal;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGILL, &action, &before);
  at_first_instruction();
  sigaction(SIGILL, &before, nullptr);
}
#endif

[[gnu::noinline]] void signal_stack(Callback callback, void* argument) {
  constexpr std::size_t size = 256 * 1024;
  stack_t stack{}, before{};
  stack.ss_sp = std::malloc(size);  // NOLINT(cppcoreguidelines-no-malloc)
  stack.ss_size = size;
  sigaltstack(&stack, &before);
  with_handler(SA_ONSTACK, callback, argument);
  sigaltstack(&before, nullptr);
  std::free(stack.ss_sp);  // NOLINT(cppcoreguidelines-no-malloc)
}

constexpr auto all = std::to_array<Shape>({
  {"leaf", leaf}, {"recursive", recursive}, {"pushes_all_registers", pushes_all_registers},
      {"uses_frame_pointer_for_data", uses_frame_pointer_for_data}, {"dynamic_array", dynamic_array},
      {"realigned", realigned}, {"realigned_with_dynamic_array", realigned_with_dynamic_array}, {"large", large},
      {"huge", huge}, {"pushes_arguments", pushes_arguments}, {"lambda", lambda},
      {"calls_what_never_returns", calls_what_never_returns}, {"early_return", early_return},
      {"from_the_c_library", from_the_c_library},
#if defined(__x86_64__)  // elsewhere walks follow frame records, which don't say where a function was interrupted
      {"signal_handler", signal_handler}, {"interrupted_function", interrupted_function},
      {"signal_stack", signal_stack},
#endif
});

}  // namespace
}  // namespace shapes

extern "C" shapes::Shapes SHAPES() { return {std::data(shapes::all), std::size(shapes::all)}; }
