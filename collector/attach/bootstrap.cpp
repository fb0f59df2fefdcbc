// SPDX-License-Identifier: Apache-2.0
#include "collector/attach/bootstrap.h"

#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>

#include "collector/attach/process.h"

namespace memreel::attach {
namespace {

/// The page's layout, from its start. Both pieces of code address it through rbx.
struct Layout {
  std::uint64_t pthread_create, dlopen, dlsym, dlerror, errno_location;  // 0x00 .. 0x20
  std::uint64_t page, size;                                              // 0x28, 0x30
  std::uint64_t thread;                                                  // 0x38: pthread_t that is started
  std::uint64_t loader;                                                  // 0x40: address of `loading`
  std::uint64_t frame;                                                   // 0x48: address of the signal frame
  BootstrapNews news;                                                    // 0x50
  std::array<std::uint64_t, 2> patience;                                 // 0x68: timespec
  std::uint64_t released;                                                // 0x78
  std::array<char, 64> visit;                                            // 0x80
  std::array<char, 4096> library;                                        // 0xC0
  std::array<unsigned char, 256> bootstrap, loading;
};
static_assert(offsetof(Layout, news) == 0x50 && sizeof(BootstrapNews) == 0x18);
static_assert(offsetof(Layout, patience) == 0x68 && offsetof(Layout, released) == Bootstrap::released_at);
static_assert(offsetof(Layout, visit) == 0x80 && offsetof(Layout, library) == 0xC0);

constexpr std::array<unsigned char, 256> code(std::initializer_list<unsigned char> bytes) {
  std::array<unsigned char, 256> code{};
  std::size_t i = 0;
  for (const unsigned char byte : bytes) code[i++] = byte;
  return code;
}

// clang-format off
/// The borrowed thread. rdi: the page. It waits with ppoll, because other timed waits use the kernel's restart_block,
/// which still belongs to the call in which the thread was stopped.
constexpr auto bootstrap_code = code({
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

template <class T>
void put(std::vector<std::byte>& page, std::size_t offset, const T& value) {
  std::memcpy(page.data() + offset, &value, sizeof value);
}

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

std::size_t frame_size(const ThreadState& thread) { return extended_offset + thread.extended.size() + 64; }

/// At `offset` of `bytes`, which is at `address` of the process, a multiple of 64.
void put_frame(std::vector<std::byte>& bytes, std::size_t offset, std::uint64_t address, const ThreadState& thread) {
  const std::vector<std::byte> extended = extended_of(thread);
  put(bytes, offset, frame_of(thread, address + extended_offset));
  std::memcpy(bytes.data() + offset + extended_offset, extended.data(), extended.size());
}

}  // namespace

user_regs_struct with_call_begun_again(const user_regs_struct& registers) {
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

WayBack make_way_back(const ThreadState& thread, std::uint64_t handlers_return) {
  constexpr std::uint64_t red_zone = 128, alignment = 64;
  const std::size_t size = frame_size(thread);
  WayBack way{.bytes = {}, .address = (thread.registers.rsp - red_zone - size - alignment) / alignment * alignment};
  way.address += alignment - sizeof handlers_return;
  way.bytes.resize(sizeof handlers_return + size);
  put(way.bytes, 0, handlers_return);
  put_frame(way.bytes, sizeof handlers_return, way.address + sizeof handlers_return, thread);
  return way;
}

Bootstrap make_bootstrap(std::uint64_t address, const BootstrapFunctions& functions, const ThreadState& thread,
                         const std::string& library, const std::string& visit) {
  constexpr std::size_t frame_at = (sizeof(Layout) + 63) / 64 * 64;
  Bootstrap bootstrap;
  bootstrap.page.resize(Bootstrap::page_size);
  put_frame(bootstrap.page, frame_at, address + frame_at, thread);

  Layout layout{};
  layout.pthread_create = functions.pthread_create;
  layout.dlopen = functions.dlopen;
  layout.dlsym = functions.dlsym;
  layout.dlerror = functions.dlerror;
  layout.errno_location = functions.errno_location;
  layout.page = address;
  layout.size = Bootstrap::page_size;
  layout.loader = address + offsetof(Layout, loading);
  layout.frame = address + frame_at;
  layout.patience[0] = 1;
  visit.copy(layout.visit.data(), layout.visit.size() - 1);
  library.copy(layout.library.data(), layout.library.size() - 1);
  layout.bootstrap = bootstrap_code;
  layout.loading = loading_code;
  put(bootstrap.page, 0, layout);

  bootstrap.entry = address + offsetof(Layout, bootstrap);
  bootstrap.stack = address + Bootstrap::page_size;
  bootstrap.argument = address;
  bootstrap.news = address + offsetof(Layout, news);
  bootstrap.released = address + Bootstrap::released_at;
  return bootstrap;
}

namespace {

/// How suitable a call is to be interrupted; none: it could not be restarted, or a lock may be held during it.
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

constexpr int rank_of_running = 3;

bool may_hold_locks(const Mapping& mapping) {
  const std::string_view file = mapping.file();
  for (const std::string_view name :
       {"libc.so", "libc-2.", "ld-linux", "ld-2.", "libpthread", "libdl", "libmemreel-agent"})
    if (file.starts_with(name)) return true;
  // jemalloc, tcmalloc, mimalloc...; sanitizers
  return file.find("malloc") != std::string_view::npos || file.find("san.so") != std::string_view::npos;
}

/// The address of the C library's code "mov rax, SYS_rt_sigreturn; syscall"; 0 if not found.
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

}  // namespace

SafePlaces::SafePlaces(const RemoteProcess& process)
    : process_(&process), mappings_(process.mappings()), handlers_return_(find_handlers_return(process, mappings_)) {}

std::vector<pid_t> SafePlaces::candidates() const {
  std::vector<std::pair<int, pid_t>> ranked;
  for (const pid_t thread : threads_of(process_->number())) {
    // A thread in uninterruptible sleep (D) would hold us up.
    const std::string stat = read_proc(process_->number(), "task/" + std::to_string(thread) + "/stat").value_or("");
    if (const std::size_t name_end = stat.rfind(')');
        name_end == std::string::npos || stat.compare(name_end, 3, ") D") == 0)
      continue;
    // "running", or the number of the call and its arguments; "-1 ..." in a page fault and the like.
    const std::string call = read_proc(process_->number(), "task/" + std::to_string(thread) + "/syscall").value_or("");
    if (call.starts_with("running") || call.starts_with("-1")) {
      ranked.emplace_back(rank_of_running, thread);
    } else if (!call.empty()) {
      if (const auto rank = rank_of_call(std::atol(call.c_str()))) ranked.emplace_back(*rank, thread);
    }
  }
  std::ranges::stable_sort(ranked, {}, &std::pair<int, pid_t>::first);
  std::vector<pid_t> threads;
  for (const auto& [rank, thread] : ranked) threads.push_back(thread);
  return threads;
}

bool SafePlaces::is_safe(const user_regs_struct& registers) const {
  const auto place = std::ranges::find_if(
      mappings_, [&](const Mapping& m) { return m.begin <= registers.rip && registers.rip < m.end; });
  const bool in_call = static_cast<std::int64_t>(registers.orig_rax) >= 0;
  if (in_call) {
    // The loader makes its own calls with its lock held.
    const bool in_loader = place != mappings_.end() && place->file().starts_with("ld-");
    if (in_loader || !rank_of_call(static_cast<long>(registers.orig_rax))) return false;
  } else if (place == mappings_.end() || may_hold_locks(*place)) {
    return false;
  }
  return !is_in_handler(registers.rsp);
}

/// The frame may be left over from a handler that has returned: then another thread is tried.
bool SafePlaces::is_in_handler(std::uint64_t stack_pointer) const {
  constexpr std::size_t looked_at = 32U << 10U, step = 4096;
  if (handlers_return_ == 0) return false;
  std::array<std::byte, step> part{};
  for (std::uint64_t at = stack_pointer & ~7ULL; at < stack_pointer + looked_at; at += step) {
    // Whole pages: the one after the last may be unmapped.
    const std::size_t size = std::min<std::uint64_t>(step, (at | (step - 1)) + 1 - at);
    if (!process_->read(at, std::span(part).first(size))) return false;
    for (std::size_t i = 0; i + 8 <= size; i += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, part.data() + i, sizeof word);
      if (word == handlers_return_) return true;
    }
    at -= step - size;
  }
  return false;
}

}  // namespace memreel::attach
