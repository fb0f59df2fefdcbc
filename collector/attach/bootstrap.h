// SPDX-License-Identifier: Apache-2.0
// What a borrowed thread runs: the only code that memreel makes one of the program's own threads run. It starts a
// thread that loads the agent, signals that it did, and waits to be restored.
//
// It must be able to return without us: if we were killed meanwhile, nobody would restore the thread's registers. So
// the thread's full state is saved in a frame like the one the kernel pushes for a signal handler; if we don't return
// within a second, the bootstrap ends as handlers do, with rt_sigreturn(2). The system call that allocates the page
// also runs with such a frame, on the thread's own stack. The one thing the kernel can't restore then is how much of a
// sleep had elapsed: the sleep starts over.
//
// The page is readable, writable and executable while it is needed: once no thread needs it, the agent unmaps it at the
// first request it serves (agent/agent.h).
#pragma once

#include <sys/types.h>
#include <sys/user.h>

#include <array>

#include "collector/attach/process.h"

namespace memreel::attach {

/// Addresses in the other process.
struct BootstrapFunctions {
  std::uint64_t pthread_create = 0, dlopen = 0, dlsym = 0, dlerror = 0, errno_location = 0;
};

/// Progress, as the page reports it. Read with RemoteProcess.
struct BootstrapNews {
  std::uint32_t started = 0;        // 1: the thread has done its part and waits
  std::int32_t thread_refused = 0;  // what pthread_create returned
  std::uint32_t failed = 0;         // 1: the library could not be loaded
  std::uint32_t unused = 0;
  std::uint64_t failure = 0;  // address of dlerror()'s text, or 0
};

struct Bootstrap {
  static constexpr std::uint64_t page_size = 64U << 10U;

  std::vector<std::byte> page;
  std::uint64_t entry = 0, stack = 0, argument = 0;  // of the borrowed thread
  std::uint64_t news = 0;                            // address of the BootstrapNews
  std::uint64_t released = 0;                        // nonzero once no thread needs the page any more

  /// Its offset in the page, for code that is given the page.
  static constexpr std::size_t released_at = 0x78;
};

/// A frame below which a function can be entered: when the function returns, the thread's state is restored.
struct WayBack {
  std::vector<std::byte> bytes;
  std::uint64_t address = 0;  // where the bytes belong: the stack pointer at the function's entry
};

/// `handlers_return` is the address of code that makes the rt_sigreturn system call. Like a signal handler's frame, the
/// frame lies on the thread's own stack, below what it uses.
WayBack make_way_back(const ThreadState& thread, std::uint64_t handlers_return);

/// For a page at `address`. `thread` is the state to restore; the page's code loads `library` and calls its function
/// `visit`, a void(void* page, std::size_t size), with the page.
Bootstrap make_bootstrap(std::uint64_t address, const BootstrapFunctions& functions, const ThreadState& thread,
                         const std::string& library, const std::string& visit);

// Where a thread may be borrowed: where it holds no lock needed to start a thread, above all the allocator's and the
// loader's.

class SafePlaces {
 public:
  /// Gathers what can be learnt without stopping a thread.
  explicit SafePlaces(const RemoteProcess& process);

  /// Address of the code that signal handlers return to, which calls rt_sigreturn; 0 if not found.
  std::uint64_t handlers_return() const { return handlers_return_; }

  /// Threads in the order to try them: first those sleeping in a call that can be restarted transparently, then running
  /// ones. Threads in other waits are left out. Stops no thread.
  std::vector<pid_t> candidates() const;

  /// Whether a stopped thread may be borrowed: it is in a sleep, or in code outside the C library, the loader and any
  /// allocator; and not in a signal handler, which may have interrupted one of these.
  bool is_safe(const user_regs_struct& registers) const;

 private:
  bool is_in_handler(const user_regs_struct& registers) const;

  const RemoteProcess* process_;
  std::vector<Mapping> mappings_;
  std::uint64_t handlers_return_ = 0;
};

// The page that a borrowed thread's code works with. That code is machine code, which knows these offsets.

struct PageLayout {
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
  std::array<std::byte, 256> bootstrap, loading;
};
static_assert(offsetof(PageLayout, news) == 0x50 && sizeof(BootstrapNews) == 0x18);
static_assert(offsetof(PageLayout, patience) == 0x68 && offsetof(PageLayout, released) == Bootstrap::released_at);
static_assert(offsetof(PageLayout, visit) == 0x80 && offsetof(PageLayout, library) == 0xC0);

}  // namespace memreel::attach
