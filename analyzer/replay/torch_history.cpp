#include "analyzer/replay/torch_history.h"

namespace memreel {

bool is_torch(const Trace& trace, const Prepared& heap) {
  return heap.level == Level::framework && trace.tables[trace.tables[heap.heap].name].starts_with("torch");
}

std::string why_not_reproducible(const Trace& trace) {
  const Losses& losses = trace.losses;
  if (losses.history_overflowed) return "the history overflowed its ring: its beginning is lost";
  if (losses.began_late || losses.preexisting_allocations > 0)
    return "the history began late: " + std::to_string(losses.preexisting_allocations) +
           " allocations are older than it, and how they came to lie where they do is not known";
  if (losses.ring_full > 0) return std::to_string(losses.ring_full) + " events were lost while recording";
  if (trace.header.source == "cupti" || trace.header.source == "interpose")
    return "recorded by memreel, from outside the allocator: sizes are those of whole blocks, settings and pools are "
           "not "
           "known (import a snapshot of PyTorch's own history to verify)";
  if (!trace.read.intact()) return "the file is damaged: events are missing";
  return {};
}

}  // namespace memreel
