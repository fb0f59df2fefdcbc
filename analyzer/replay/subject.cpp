#include "analyzer/replay/subject.h"

#include "analyzer/history/levels.h"
#include "analyzer/replay/torch_calls.h"

namespace memreel {

std::size_t complete_subject(Trace& trace) {
  const std::size_t tied = tie_levels(trace);
  return tied + infer_torch_calls(trace);
}

}  // namespace memreel
