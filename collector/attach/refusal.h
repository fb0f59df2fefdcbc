// Why the agent can't be loaded into a process, and the remedy.
#pragma once

#include <sys/types.h>

#include <string>

#include "formats/model/result.h"

namespace memreel::attach {

/// As used in errors: "process 4711".
std::string process_name(pid_t process);

/// Errors: the process does not exist, has ended, or is this one. Applies to every attach method.
Result<void> check_alive(pid_t process);

/// Errors: the agent can't be loaded into it from outside, with the reason and a remedy.
Result<void> check_enterable(pid_t process);

/// Yama's level (Documentation/admin-guide/LSM/Yama.rst); -1 if Yama is not in use.
int yama_level();

/// Explains an errno from tracing `process` at this Yama level, with a remedy.
Error explain_refused_trace(pid_t process, int reason, int level = yama_level());

}  // namespace memreel::attach
