// What a borrowed thread runs: the only code that memreel makes a program's own thread run. It starts a thread that
// loads the library, says that it did, and waits to be put back to where it was.
//
// It must not need us to get back: had we been killed meanwhile, nobody would restore the thread's registers. So there
// is a frame with all that the thread was, as the kernel leaves one for a signal handler; when nobody comes for a
// second, the bootstrap ends as handlers do, with rt_sigreturn(2). The system call that gets the page itself is made in
// front of such a frame, on the thread's own stack. What the kernel then can't bring back is how far a sleep had got:
// it begins again.
//
// The page is readable, writable and executable, for as long as it takes: the library gives it back with the first
// question that it is asked when nobody needs it any more (agent/control.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "collector/attach/traced_thread.h"

namespace memreel::attach {

/// Addresses in the other process.
struct BootstrapFunctions {
  std::uint64_t pthread_create = 0, dlopen = 0, dlsym = 0, dlerror = 0, errno_location = 0;
};

/// What happens, as the page tells. Read with RemoteProcess.
struct BootstrapNews {
  std::uint32_t started = 0;        // the thread has done its part, and waits. 1
  std::int32_t thread_refused = 0;  // what pthread_create returned
  std::uint32_t failed = 0;         // the library could not be loaded. 1
  std::uint32_t unused = 0;
  std::uint64_t failure = 0;  // address of dlerror's text, or 0
};

struct Bootstrap {
  static constexpr std::uint64_t page_size = 64U << 10U;

  std::vector<std::byte> page;
  std::uint64_t entry = 0, stack = 0, argument = 0;  // of the borrowed thread: rip, rsp, rdi
  std::uint64_t news = 0;                            // where BootstrapNews are
  std::uint64_t released = 0;                        // a number that is not 0 once no thread needs the page any more

  /// The same, for whoever is given the page.
  static constexpr std::size_t released_at = 0x78;
};

/// A frame in front of which a function can be entered: when that returns, the thread is as it was.
struct WayBack {
  std::vector<std::byte> bytes;
  std::uint64_t address = 0;  // where they belong: the stack pointer at the function's entry
};

/// `handlers_return` is the address of code that makes the system call rt_sigreturn. The frame lies on the thread's own
/// stack, below what it uses, as those of signal handlers do.
WayBack make_way_back(const ThreadState& thread, std::uint64_t handlers_return);

/// For a page that lies at `address`. `thread` is as it will be restored; `library` is loaded, and its function
/// `visit`, a void(void* page, std::size_t size), is called with the page.
Bootstrap make_bootstrap(std::uint64_t address, const BootstrapFunctions& functions, const ThreadState& thread,
                         const std::string& library, const std::string& visit);

/// The state in which a thread goes on with a system call that stopping it has interrupted, as the kernel would have it
/// with a signal handler that asks for it (SA_RESTART); any other state as it is.
user_regs_struct with_call_begun_again(const user_regs_struct& registers);

}  // namespace memreel::attach
