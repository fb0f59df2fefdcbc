// Whether a trace shows everything that a gate judges. What is missing might have exceeded every budget.
#pragma once

#include <string>
#include <vector>

#include "formats/model/trace.h"

namespace memreel {

/// The parts of the program's history that the trace lacks, each in a few words ("what came before the recording
/// began"); empty if it is complete.
std::vector<std::string> what_is_missing(const Losses& losses, const ReadReport& read, Bytes file_size);

inline std::vector<std::string> what_is_missing(const Trace& trace) {
  return what_is_missing(trace.losses, trace.read, trace.file_size);
}

}  // namespace memreel
