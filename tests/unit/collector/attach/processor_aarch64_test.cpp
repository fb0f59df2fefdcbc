// SPDX-License-Identifier: Apache-2.0
// What a borrowed thread runs, run by a thread of the test: no ptrace, which qemu-user does not have.
#include "collector/attach/processor.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "collector/attach/bootstrap.h"

namespace memreel::attach {
namespace {

/// The registers at `landing`, which a thread is restored to. Assembly knows the offsets.
struct Arrived {
  std::array<std::uint64_t, 31> general;
  std::uint64_t stack;
  std::array<std::array<std::uint64_t, 2>, 32> vectors;
  std::uint64_t status, control;
};
Arrived arrived;
ucontext_t home;

void come_home() { ::setcontext(&home); }

}  // namespace
}  // namespace memreel::attach

extern "C" void memreel_test_come_home() { memreel::attach::come_home(); }
extern "C" char memreel_test_landing;

// x28: the address of `arrived`.
asm(R"(
    .text
memreel_test_landing:
    stp     x0, x1, [x28, #0]
    stp     x2, x3, [x28, #16]
    stp     x4, x5, [x28, #32]
    stp     x6, x7, [x28, #48]
    stp     x8, x9, [x28, #64]
    stp     x10, x11, [x28, #80]
    stp     x12, x13, [x28, #96]
    stp     x14, x15, [x28, #112]
    stp     x16, x17, [x28, #128]
    stp     x18, x19, [x28, #144]
    stp     x20, x21, [x28, #160]
    stp     x22, x23, [x28, #176]
    stp     x24, x25, [x28, #192]
    stp     x26, x27, [x28, #208]
    stp     x28, x29, [x28, #224]
    str     x30, [x28, #240]
    mov     x0, sp
    str     x0, [x28, #248]
    add     x1, x28, #256
    st1     {v0.2d-v3.2d}, [x1], #64
    st1     {v4.2d-v7.2d}, [x1], #64
    st1     {v8.2d-v11.2d}, [x1], #64
    st1     {v12.2d-v15.2d}, [x1], #64
    st1     {v16.2d-v19.2d}, [x1], #64
    st1     {v20.2d-v23.2d}, [x1], #64
    st1     {v24.2d-v27.2d}, [x1], #64
    st1     {v28.2d-v31.2d}, [x1], #64
    mrs     x2, fpsr
    mrs     x3, fpcr
    stp     x2, x3, [x1]
    b       memreel_test_come_home
)");

namespace memreel::attach {
namespace {

class Page {
 public:
  explicit Page(std::size_t size)
      : bytes_(static_cast<std::byte*>(
                   ::mmap(nullptr, size, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)),
               size) {}
  Page(const Page&) = delete;
  Page& operator=(const Page&) = delete;
  ~Page() { ::munmap(bytes_.data(), bytes_.size()); }

  std::span<std::byte> bytes() const { return bytes_; }
  std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(bytes_.data()); }
  std::uint64_t end() const { return address() + bytes_.size(); }

 private:
  std::span<std::byte> bytes_;
};

/// A thread with a different number in every register.
ThreadState thread_on(const Page& stack) {
  ThreadState thread;
  for (std::uint64_t i = 0; i < 31; ++i) thread.registers.regs[i] = 0x1111'0000'0000'0000U + i;
  thread.registers.regs[28] = reinterpret_cast<std::uint64_t>(&arrived);
  thread.registers.sp = stack.end() - 4096;
  thread.registers.pc = reinterpret_cast<std::uint64_t>(&memreel_test_landing);
  user_fpsimd_struct vectors{};
  for (std::uint64_t i = 0; i < 32; ++i) {
    const std::array<std::uint64_t, 2> halves{0x2222'0000'0000'0000U + i, 0x3333'0000'0000'0000U + i};
    std::memcpy(&vectors.vregs[i], halves.data(), sizeof halves);
  }
  vectors.fpsr = 0x10;         // an inexact result
  vectors.fpcr = 0x0040'0000;  // rounds up
  thread.extended.resize(sizeof vectors);
  std::memcpy(thread.extended.data(), &vectors, sizeof vectors);
  return thread;
}

void expect_restored(const ThreadState& thread) {
  for (std::size_t i = 0; i < 31; ++i) EXPECT_EQ(arrived.general[i], thread.registers.regs[i]) << "x" << i;
  EXPECT_EQ(arrived.stack, thread.registers.sp);
  for (std::uint64_t i = 0; i < 32; ++i) {
    EXPECT_EQ(arrived.vectors[i][0], 0x2222'0000'0000'0000U + i) << "v" << i;
    EXPECT_EQ(arrived.vectors[i][1], 0x3333'0000'0000'0000U + i) << "v" << i;
  }
  EXPECT_EQ(arrived.status, 0x10U);
  EXPECT_EQ(arrived.control, 0x0040'0000U);
}

struct Loaded {
  std::string library, function;
  void* page;
  std::size_t size;
};
Loaded loaded;
std::atomic<int> visits;

void visit(void* page, std::size_t size) {
  loaded.page = page;
  loaded.size = size;
  ++visits;
}
void* open_library(const char* file, int) {
  loaded.library = file;
  return loaded.library == "/no/such.so" ? nullptr : &loaded;
}
void* find_function(void* library, const char* name) {
  EXPECT_EQ(library, &loaded);
  loaded.function = name;
  return reinterpret_cast<void*>(&visit);
}
char* why_not() {
  static std::string text = "no such file";
  return text.data();
}

template <class Function>
std::uint64_t address_of(Function* function) {
  return reinterpret_cast<std::uint64_t>(function);
}

/// Runs the bootstrap as a borrowed thread does that nobody puts back.
BootstrapNews news_of(const std::string& library, const Page& page, const ThreadState& thread) {
  const BootstrapFunctions functions{.pthread_create = address_of(&::pthread_create),
                                     .dlopen = address_of(&open_library),
                                     .dlsym = address_of(&find_function),
                                     .dlerror = address_of(&why_not),
                                     .errno_location = address_of(&::__errno_location)};
  const Bootstrap bootstrap = make_bootstrap(page.address(), functions, thread, library, "memreel_agent_visit");
  std::memcpy(page.bytes().data(), bootstrap.page.data(), bootstrap.page.size());
  __builtin___clear_cache(reinterpret_cast<char*>(page.address()), reinterpret_cast<char*>(page.end()));
  arrived = {};
  volatile bool is_back = false;
  ::getcontext(&home);
  if (!is_back) {
    is_back = true;
    asm volatile("mov x0, %0\n\tmov sp, %1\n\tbr %2"
                 :
                 : "r"(bootstrap.argument), "r"(bootstrap.stack), "r"(bootstrap.entry)
                 : "x0", "memory");
  }
  BootstrapNews news;
  for (int i = 0; i < 1000; ++i) {
    std::memcpy(&news, reinterpret_cast<const void*>(bootstrap.news), sizeof news);
    if (visits > 0 || news.failed != 0) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return news;
}

TEST(Bootstrap, LoadsTheLibraryAndRestoresTheThread) {
  const Page page(Bootstrap::page_size), stack(256U << 10U);
  const ThreadState thread = thread_on(stack);
  visits = 0;
  errno = 77;
  const BootstrapNews news = news_of("/opt/libmemreel-agent.so", page, thread);
  EXPECT_EQ(errno, 77);
  EXPECT_EQ(news.started, 1U);
  EXPECT_EQ(news.thread_refused, 0);
  EXPECT_EQ(news.failed, 0U);
  ASSERT_EQ(visits, 1);
  EXPECT_EQ(loaded.library, "/opt/libmemreel-agent.so");
  EXPECT_EQ(loaded.function, "memreel_agent_visit");
  EXPECT_EQ(loaded.page, page.bytes().data());
  EXPECT_EQ(loaded.size, Bootstrap::page_size);
  expect_restored(thread);
}

TEST(Bootstrap, TellsWhyALibraryWasNotLoaded) {
  const Page page(Bootstrap::page_size), stack(256U << 10U);
  visits = 0;
  const BootstrapNews news = news_of("/no/such.so", page, thread_on(stack));
  EXPECT_EQ(visits, 0);
  EXPECT_EQ(news.failed, 1U);
  EXPECT_STREQ(reinterpret_cast<const char*>(news.failure), "no such file");
}

TEST(WayBack, RestoresTheThreadWhereACallReturns) {
  const Page code(64U << 10U), stack(256U << 10U);
  constexpr std::array<std::uint32_t, 2> return_from_handler{0xD2801168, 0xD4000001};  // mov x8, 139; svc 0
  std::memcpy(code.bytes().data(), return_from_handler.data(), sizeof return_from_handler);
  __builtin___clear_cache(reinterpret_cast<char*>(code.address()), reinterpret_cast<char*>(code.end()));
  const ThreadState thread = thread_on(stack);
  const WayBack way = make_way_back(thread, code.address());
  EXPECT_EQ(way.address % 16, 0U);
  ASSERT_LE(way.address + way.bytes.size(), thread.registers.sp);
  std::memcpy(reinterpret_cast<void*>(way.address), way.bytes.data(), way.bytes.size());
  constexpr std::array<std::uint64_t, 6> arguments{};
  const user_regs_struct at = at_call(thread.registers, 0, way.address, code.address(), SYS_getpid, arguments);
  arrived = {};
  volatile bool is_back = false;
  ::getcontext(&home);
  if (!is_back) {
    is_back = true;
    asm volatile("mov x16, %0\n\tmov x30, %1\n\tmov sp, x16\n\tret" : : "r"(at.sp), "r"(at.regs[30]) : "x16", "memory");
  }
  expect_restored(thread);
}

/// As after memreel was killed: the vector registers in the kernel's other form, of any length.
TEST(WayBack, KeepsScalableVectors) {
  const Page stack(256U << 10U);
  ThreadState thread = thread_on(stack);
  constexpr std::uint16_t length = 32;
  constexpr std::size_t registers = 32 * length + 17 * length / 8;
  struct Header {
    std::uint32_t size, largest;
    std::uint16_t length, longest, flags, reserved;
  };
  const Header header{sizeof(Header) + registers + 32, 8192, length, 256, 1, 0};
  thread.extended.assign(header.size, std::byte{});
  std::memcpy(thread.extended.data(), &header, sizeof header);
  for (std::size_t i = 0; i < registers; ++i) thread.extended[sizeof header + i] = static_cast<std::byte>(i);
  const WayBack way = make_way_back(thread, 0);
  // fpsimd_context, then sve_context with the same vectors whole.
  const std::span<const std::byte> records = std::span(way.bytes).subspan(128 + 176 + 288);
  const auto word = [&](std::size_t at) {
    std::uint32_t value = 0;
    std::memcpy(&value, records.data() + at, sizeof value);
    return value;
  };
  EXPECT_EQ(word(0), 0x46508001U);
  EXPECT_EQ(word(4), 528U);
  EXPECT_EQ(std::memcmp(records.data() + 16 + 16, thread.extended.data() + sizeof header + length, 16), 0) << "v1";
  EXPECT_EQ(word(528), 0x53564501U);
  EXPECT_GE(word(532), 16 + registers);
  EXPECT_EQ(word(536) & 0xFFFFU, length);
  EXPECT_EQ(std::memcmp(records.data() + 528 + 16, thread.extended.data() + sizeof header, registers), 0);
  EXPECT_EQ(word(528 + word(532)), 0U);
}

user_regs_struct in_call(long number, std::uint64_t result) {
  user_regs_struct registers{};
  registers.regs[0] = result;
  registers.regs[8] = static_cast<std::uint64_t>(number);
  registers.sp = 0x7000;
  registers.pc = 0x4004;
  return registers;
}

SeenCall seen(long number, std::array<std::uint64_t, 6> arguments) {
  return {.number = number, .arguments = arguments, .stack_pointer = 0x7000, .program_counter = 0x4004};
}

TEST(Calls, ThatTheKernelDoesNotRestartBeginAgain) {
  const user_regs_struct interrupted = in_call(SYS_epoll_pwait, static_cast<std::uint64_t>(-EINTR));
  const user_regs_struct again = with_call_begun_again(interrupted, seen(SYS_epoll_pwait, {5, 1, 2, 3, 4, 8}));
  EXPECT_EQ(again.pc, 0x4000U);
  EXPECT_EQ(again.regs[0], 5U);
  EXPECT_EQ(again.regs[8], static_cast<std::uint64_t>(SYS_epoll_pwait));
  // Another call than the one seen, a result, or nothing seen: as it is.
  EXPECT_EQ(with_call_begun_again(interrupted, seen(SYS_read, {5})).pc, interrupted.pc);
  EXPECT_EQ(with_call_begun_again(interrupted).pc, interrupted.pc);
  EXPECT_EQ(with_call_begun_again(in_call(SYS_epoll_pwait, 1), seen(SYS_epoll_pwait, {5})).pc, interrupted.pc);
}

TEST(Calls, SleepsGoOnForTheRestOfTheirTime) {
  const auto number_after = [](long number, std::array<std::uint64_t, 6> arguments) {
    user_regs_struct stopped = in_call(number, arguments[0]);
    stopped.pc -= 4;  // the kernel will restart it
    return static_cast<long>(with_sleep_continued(stopped, seen(number, arguments)).regs[8]);
  };
  EXPECT_EQ(number_after(SYS_nanosleep, {0x100, 0}), SYS_restart_syscall);
  EXPECT_EQ(number_after(SYS_clock_nanosleep, {1, 0, 0x100, 0}), SYS_restart_syscall);
  EXPECT_EQ(number_after(SYS_clock_nanosleep, {1, 1, 0x100, 0}), SYS_clock_nanosleep) << "until a time";
  EXPECT_EQ(number_after(SYS_futex, {0x100, 128, 7, 0x200}), SYS_restart_syscall);
  EXPECT_EQ(number_after(SYS_futex, {0x100, 128, 7, 0}), SYS_futex) << "without a limit";
  EXPECT_EQ(number_after(SYS_futex, {0x100, 128 | 9, 7, 0x200}), SYS_futex) << "until a time";
  EXPECT_EQ(number_after(SYS_ppoll, {0x100, 1, 0x200}), SYS_ppoll) << "the kernel notes the rest in the program";
}

TEST(Calls, AreFoundInTheCLibrary) {
  std::array<std::byte, 64> code{};
  std::memcpy(code.data(), reinterpret_cast<const void*>(::dlsym(RTLD_DEFAULT, "getpid")), code.size());
  const auto at = find_system_call(code);
  ASSERT_TRUE(at);
  EXPECT_LT(*at, code.size());
  std::array<std::byte, 64> none{};
  EXPECT_FALSE(find_system_call(none));
}

TEST(Registers, ReturnAddressesLoseTheirSignature) {
  EXPECT_EQ(without_signature(0x002A'FFFF'8000'1234U), 0xFFFF'8000'1234U);
  EXPECT_EQ(without_signature(0xFFFF'8000'1234U), 0xFFFF'8000'1234U);
}

}  // namespace
}  // namespace memreel::attach
