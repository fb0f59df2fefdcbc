// Attaching to a running program, and detaching.
#pragma once

#include <sys/types.h>

#include <chrono>

#include "collector/attach/message.h"
#include "collector/options/options.h"
#include "formats/model/result.h"

namespace memreel::attach {

struct Joined {
  enum class Door {
    open,     // the agent was already loaded, and dormant
    python,   // Python loaded it on request
    entered,  // it was injected from outside
  };
  Door door = Door::open;
  std::chrono::nanoseconds pause{};  // of one of the program's threads, if it was entered
  Message status;                    // the agent's report on the recording (agent/control.h)
};

/// Starts a recording in `process` with `options`: asks the dormant agent in it, or loads the agent first; at most
/// `limit` in all. Errors: why it can't, with a remedy; the process is then unchanged.
Result<Joined> join(pid_t process, const agent::Options& options, std::chrono::milliseconds limit);

/// Ends the recording and returns its result (agent/control.h). Errors: nothing is being recorded there.
Result<Message> leave(pid_t process);

Result<Message> status_of(pid_t process);

}  // namespace memreel::attach
