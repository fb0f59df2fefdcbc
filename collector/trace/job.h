// SPDX-License-Identifier: Apache-2.0
// What a process knows about its job, for the trace's header.
#pragma once

#include <istream>
#include <span>

#include "formats/model/trace.h"

namespace memreel::agent {

// The program's command line, for the trace's header.

/// This process's arguments.
std::vector<std::string> own_arguments();

/// The arguments, joined by spaces.
std::string text_of_arguments(std::span<const std::string> arguments);

/// The same with "***" in place of likely secrets: the value of an option or variable named like one (--api-key=X,
/// --token X, PASSWORD=X, also inside a script passed as an argument), the password in a URL, what follows
/// "Authorization:" or "Bearer", and tokens with prefixes known from services.
std::string masked_text_of_arguments(std::span<const std::string> arguments);

/// The value of a variable, with "***" if it is or contains a likely secret.
std::string masked_value(std::string_view name, const std::string& value);

/// The environment variables (environ(7)) that launchers set, and those that configure an allocator. The result is
/// printable and small whatever they contain: at most max_variables, each cut to 1,000 bytes. `mask`: "***" in place of
/// likely secrets.
Variables job_environment(const char* const* environment, bool mask);

/// Versions of the libraries mapped into a process, from their file names: `maps` is its /proc/PID/maps. PyTorch's
/// comes from the version file next to it.
Variables loaded_versions(std::istream& maps);

}  // namespace memreel::agent
