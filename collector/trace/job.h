// What a process knows about its job, for the trace's header.
#pragma once

#include <istream>

#include "formats/model/trace.h"

namespace memreel::agent {

/// The environment variables (environ(7)) that launchers set, and those that configure an allocator. The result is
/// printable and small whatever they contain: at most max_variables, each cut to 1,000 bytes. `mask`: "***" in place of
/// likely secrets.
Variables job_environment(const char* const* environment, bool mask);

/// Versions of the libraries mapped into a process, from their file names: `maps` is its /proc/PID/maps. PyTorch's
/// comes from the version file next to it.
Variables loaded_versions(std::istream& maps);

}  // namespace memreel::agent
