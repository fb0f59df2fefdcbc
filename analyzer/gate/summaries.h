// Check results for other consumers: a build server, a reviewer.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "analyzer/gate/gate.h"

namespace memreel {

/// A JUnit document: one test case per check. `subject` names what was judged, e.g. the trace.
std::string junit_of(std::span<const Check> checks, std::string_view subject);

/// A pull-request comment: a table of all checks, and a line for each failed one.
std::string markdown_of(std::span<const Check> checks, std::string_view subject);

}  // namespace memreel
