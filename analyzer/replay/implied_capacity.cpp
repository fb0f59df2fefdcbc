#include "analyzer/replay/implied_capacity.h"

#include <algorithm>

#include "analyzer/policies/torch_settings.h"

namespace memreel {
namespace {

/// Releases in one go. What they were for shows in what follows them.
struct Burst {
  bool running = false;
  bool asked_for = false;  // by the program: empty_cache
  Bytes reserved_before;
};

}  // namespace

std::optional<Bytes> implied_capacity(const Trace& trace, const Prepared& heap) {
  if (trace.tables[trace.tables[heap.heap].name] != "torch.cuda") return std::nullopt;
  const TorchSettings settings = TorchSettings::recorded(heap.settings);
  const EventColumns& events = trace.events;
  Bytes reserved, most_reserved;
  std::optional<Bytes> least_refused;
  const auto refused = [&](Bytes total) { least_refused = std::min(least_refused.value_or(total), total); };
  Burst burst;
  for (std::size_t i = 0; i < events.count(); ++i) {
    if (trace.tables[events.origin[i]].heap != heap.heap) continue;
    const EventKind kind = events.kind[i];
    const Bytes size = events.size[i];
    if (kind == EventKind::segment_free) {
      if (!burst.running) {
        burst.running = true;
        burst.reserved_before = reserved;
      }
      reserved -= std::min(size, reserved);
      continue;
    }
    if (kind == EventKind::segment_alloc) {
      // Collecting garbage releases too, at any time that more than the threshold is reserved.
      if (burst.running && !burst.asked_for)
        refused(std::max(burst.reserved_before + size, settings.collected_below(burst.reserved_before)));
      reserved += size;
      most_reserved = std::max(most_reserved, reserved);
    } else if (kind == EventKind::alloc_failed) {
      refused(reserved + settings.segment_size(settings.round(size)));
    }
    burst = {.asked_for = kind == EventKind::empty_cache};
  }
  if (!least_refused) return std::nullopt;
  return std::max(*least_refused - 1_B, most_reserved);
}

}  // namespace memreel
