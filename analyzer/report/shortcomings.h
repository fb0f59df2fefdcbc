// Sentences about what a trace lacks.
#pragma once

#include <string>
#include <vector>

#include "formats/model/trace.h"

namespace memreel {

/// One sentence for each shortcoming; none if the trace is complete. `file_size`: of the whole file, which should have
/// a footer; 0 if there is no file, or it has not been read entirely yet.
std::vector<std::string> shortcomings(const Losses& losses, const ReadReport& read, Bytes file_size);

/// For a synthetic trace, a sentence that says so; otherwise empty.
std::string provenance(const Header& header);

inline std::vector<std::string> shortcomings(const Trace& trace) {
  return shortcomings(trace.losses, trace.read, trace.file_size);
}

}  // namespace memreel
