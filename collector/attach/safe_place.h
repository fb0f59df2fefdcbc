// Where a thread may be borrowed: where it holds no lock needed to start a thread, above all the allocator's and the
// loader's.
#pragma once

#include <sys/types.h>
#include <sys/user.h>

#include <cstdint>
#include <span>
#include <vector>

#include "collector/attach/remote_process.h"

namespace memreel::attach {

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
  bool is_in_handler(std::uint64_t stack_pointer) const;

  const RemoteProcess* process_;
  std::vector<Mapping> mappings_;
  std::uint64_t handlers_return_ = 0;
};

}  // namespace memreel::attach
