// The outcome of checks for those who read it elsewhere: a build server, a reviewer.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "analyzer/gate/gate.h"

namespace memreel {

/// A JUnit document: one test case for each check. `subject` names what was judged, e.g. the trace.
std::string junit_of(std::span<const Check> checks, std::string_view subject);

/// A comment for a pull request: a table of all checks, and a line for each that failed.
std::string markdown_of(std::span<const Check> checks, std::string_view subject);

}  // namespace memreel
