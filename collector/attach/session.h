// Joining a program that runs, and leaving it.
#pragma once

#include <sys/types.h>

#include <chrono>

#include "collector/attach/message.h"
#include "collector/options/options.h"
#include "formats/model/result.h"

namespace memreel::attach {

struct Joined {
  enum class Door {
    open,     // the library was there, and asleep
    python,   // Python loaded it when it was asked to
    entered,  // it was put there from outside
  };
  Door door = Door::open;
  std::chrono::nanoseconds pause{};  // of one thread of the program, when it was entered
  Message status;                    // what the library says of the recording (agent/control.h)
};

/// Begins a recording in `process`, as `options` say: by asking the library that is asleep in it, else by bringing it
/// there; at most `limit` in all. Errors: why that can't be, with a remedy; nothing has changed then.
Result<Joined> join(pid_t process, const agent::Options& options, std::chrono::milliseconds limit);

/// Ends the recording; what it came to (agent/control.h). Errors: nobody records there.
Result<Message> leave(pid_t process);

Result<Message> status_of(pid_t process);

}  // namespace memreel::attach
