// How every command opens its trace, and what it always says about one.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "formats/model/result.h"
#include "formats/model/trace.h"

namespace memreel::cli {

/// A trace or any importable file, with a progress bar; what the trace lacks is noted on standard error.
Result<Trace> open_input(const std::filesystem::path& file);

/// One sentence for each way in which the trace knows less than what happened.
std::vector<std::string> shortcomings(const Trace& trace);

}  // namespace memreel::cli
