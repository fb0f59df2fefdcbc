#include "analyzer/cli/completed_input.h"

#include <utility>

#include "analyzer/cli/input.h"
#include "analyzer/replay/completed_trace.h"

namespace memreel::cli {

Result<Trace> open_completed(const std::filesystem::path& file, Bytes memory_limit) {
  Result<Trace> trace = open_input(file, memory_limit);
  if (trace) complete_trace(*trace);
  return trace;
}

Result<Trace> open_completed(const std::filesystem::path& file, Bytes memory_limit, const SymbolOptions& symbols) {
  Result<Trace> trace = open_input(file, memory_limit);
  if (trace) complete_input(*trace, file, symbols);
  return trace;
}

void complete_input(Trace& trace, const std::filesystem::path& file, const SymbolOptions& symbols) {
  name_native_frames(trace, file, symbols);
  complete_trace(trace);
}

}  // namespace memreel::cli
