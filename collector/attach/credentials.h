// Who may control this process. A program may hold rights that the requesting user lacks: root temporarily acting as
// another user, a setuid program. And whoever controls the agent makes the program open files.
#pragma once

#include <sys/types.h>

#include "formats/model/result.h"

namespace memreel::attach {

/// Whether the kernel started this process with more rights than its user has: setuid, setgid or file capabilities. Its
/// environment then comes from that user and must not be trusted.
bool has_raised_privileges();

/// Root may always control a process. Another user may if all user IDs of the process (real, effective and saved) are
/// theirs, no ID has changed since the agent was loaded, and they may trace the process. Errors: why not.
Result<void> check_controller(uid_t user);

}  // namespace memreel::attach
