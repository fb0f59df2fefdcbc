// Where a thread may be borrowed: at a place where it holds no lock that starting a thread needs, the allocator's and
// the loader's above all.
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
  /// What can be learnt before any thread is stopped.
  explicit SafePlaces(const RemoteProcess& process);

  /// Where signal handlers return to, code that makes the call rt_sigreturn; 0 when it was not found.
  std::uint64_t handlers_return() const { return handlers_return_; }

  /// Threads in the order in which they should be tried: first those that sleep in a call that can be begun again
  /// without anybody noticing, then those that run. Those that wait otherwise are left out. Nobody is stopped to ask.
  std::vector<pid_t> candidates() const;

  /// Whether a stopped thread may be borrowed. In a sleep, or in code that is neither the C library's, the loader's
  /// nor an allocator's; and in no signal handler, which may have interrupted one of these.
  bool is_safe(const user_regs_struct& registers) const;

 private:
  bool is_in_handler(std::uint64_t stack_pointer) const;

  const RemoteProcess* process_;
  std::vector<Mapping> mappings_;
  std::uint64_t handlers_return_ = 0;
};

}  // namespace memreel::attach
