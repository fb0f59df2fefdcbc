#include "analyzer/cli/subject.h"

#include <utility>

#include "analyzer/cli/input.h"
#include "analyzer/replay/subject.h"

namespace memreel::cli {

Result<Trace> open_subject(const std::filesystem::path& file, Bytes memory_limit) {
  Result<Trace> trace = open_input(file, memory_limit);
  if (trace) complete_subject(*trace);
  return trace;
}

Result<Trace> open_subject(const std::filesystem::path& file, Bytes memory_limit, const SymbolOptions& symbols) {
  Result<Trace> trace = open_input(file, memory_limit);
  if (trace) prepare_subject(*trace, file, symbols);
  return trace;
}

void prepare_subject(Trace& trace, const std::filesystem::path& file, const SymbolOptions& symbols) {
  name_native_frames(trace, file, symbols);
  complete_subject(trace);
}

}  // namespace memreel::cli
