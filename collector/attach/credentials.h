// Who may control this process. A program may hold rights that the user who asks does not have: root that works as
// somebody else for a while, a setuid program. Whoever controls the library makes the program open files.
#pragma once

#include <sys/types.h>

#include "formats/model/result.h"

namespace memreel::attach {

/// Whether the kernel started this process with more rights than its user has: setuid, setgid or file capabilities.
/// Its environment is then that user's, and nothing of it may be trusted.
bool has_raised_privileges();

/// Root may always control a process. Another user may when every user id of the process is his (real, effective and
/// saved), no id has changed since this library was loaded, and he might trace the process, too. Errors: why not.
Result<void> check_controller(uid_t user);

}  // namespace memreel::attach
