// Why a process can't be entered, and what helps.
#pragma once

#include <sys/types.h>

#include <string>

#include "formats/model/result.h"

namespace memreel::attach {

/// As errors name it: "process 4711".
std::string process_name(pid_t process);

/// Errors: there is no such process, it has ended, or it is this one. Holds for every way of joining a process.
Result<void> check_alive(pid_t process);

/// Errors: no library of ours can be put into it from outside, with the reason and a remedy.
Result<void> check_enterable(pid_t process);

/// Yama's level (Documentation/admin-guide/LSM/Yama.rst); -1 where it is not in use.
int yama_level();

/// What the system's refusal to let `process` be traced (an errno) means at such a level, and what helps.
Error explain_refused_trace(pid_t process, int reason, int level = yama_level());

}  // namespace memreel::attach
