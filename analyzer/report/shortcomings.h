// What a trace knows less than what happened, in words.
#pragma once

#include <string>
#include <vector>

#include "formats/model/trace.h"

namespace memreel {

/// One sentence for each way; none when nothing is missing. `file_size`: of the whole file, which should have a footer;
/// 0 when there is no file, or not all of it has been read yet.
std::vector<std::string> shortcomings(const Losses& losses, const ReadReport& read, Bytes file_size);

/// Of a trace that nobody recorded, a sentence that says so; else empty.
std::string provenance(const Header& header);

inline std::vector<std::string> shortcomings(const Trace& trace) {
  return shortcomings(trace.losses, trace.read, trace.file_size);
}

}  // namespace memreel
