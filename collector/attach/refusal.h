// Why a process can't be entered, and what helps.
#pragma once

#include <sys/types.h>

#include "formats/model/result.h"

namespace memreel::attach {

/// Errors: there is no such process, it has ended, or it is this one. Holds for every way of joining a process.
Result<void> check_alive(pid_t process);

/// Errors: no library of ours can be put into it from outside, with the reason and a remedy.
Result<void> check_enterable(pid_t process);

/// What the system's refusal to let `process` be traced (an errno) means here, and what helps.
Error explain_refused_trace(pid_t process, int reason);

}  // namespace memreel::attach
