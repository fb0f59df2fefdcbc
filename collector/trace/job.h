// What a process can say of the job that it is a part of, for the trace's header.
#pragma once

#include <istream>

#include "formats/model/trace.h"

namespace memreel::agent {

/// Variables of an environment (environ(7)) that launchers set, and those that set an allocator. Whatever they hold,
/// the outcome is printable and small: at most max_variables, cut to 1,000 bytes. `mask`: "***" for what looks like a
/// secret.
Variables job_environment(const char* const* environment, bool mask);

/// Versions of what is mapped into a process, from the names of its files: `maps` is its /proc/PID/maps. PyTorch's is
/// read from the file that lies beside it.
Variables loaded_versions(std::istream& maps);

}  // namespace memreel::agent
