#include "analyzer/replay/recorded_capacity.h"

#include <algorithm>
#include <vector>

#include "analyzer/replay/recorded_device.h"
#include "analyzer/replay/recorded_run.h"
#include "analyzer/replay/recorded_torch.h"

namespace memreel {
namespace {

constexpr std::size_t most_tries = 100;

bool repeats(const Trace& trace, const Prepared& heap, const TorchSettings& settings, std::optional<Bytes> capacity) {
  RecordedDevice device(trace, heap, capacity);
  return with_torch(heap, settings, device, [&](auto& policy, auto) {
    bool same = true;
    run_recorded(heap, heap.count(), policy, device, [&](std::size_t, bool) { return same = !device.mismatch(); });
    return same;
  });
}

/// Limits at which collection would have continued after some of the releases of a request, the largest first.
std::vector<Bytes> candidates(const Trace& trace, const Prepared& heap, const TorchSettings& settings) {
  const EventColumns& events = trace.events;
  std::vector<Bytes> limits;
  Bytes reserved, most_reserved;
  for (std::size_t i = 0; i < events.count(); ++i) {
    if (!is_segment(events.kind[i]) || trace.tables[events.origin[i]].heap != heap.heap) continue;
    if (events.kind[i] == EventKind::segment_alloc || events.kind[i] == EventKind::segment_map) {
      reserved += events.size[i];
      most_reserved = std::max(most_reserved, reserved);
    } else {
      reserved -= std::min(reserved, events.size[i]);
      limits.push_back(settings.collected_below(reserved));
    }
  }
  std::erase_if(limits, [&](Bytes limit) { return limit <= most_reserved || limit > *heap.implied_capacity; });
  std::sort(limits.begin(), limits.end(), [](Bytes a, Bytes b) { return a > b; });
  limits.erase(std::unique(limits.begin(), limits.end()), limits.end());
  return limits;
}

}  // namespace

std::optional<Bytes> recorded_capacity(const Trace& trace, const Prepared& heap, const TorchSettings& settings) {
  if (!heap.implied_capacity || settings.garbage_collection_threshold <= 0) return heap.implied_capacity;
  if (repeats(trace, heap, settings, *heap.implied_capacity)) return heap.implied_capacity;
  if (repeats(trace, heap, settings, std::nullopt)) return std::nullopt;
  const std::vector<Bytes> limits = candidates(trace, heap, settings);
  for (std::size_t i = 0; i < std::min(limits.size(), most_tries); ++i)
    if (repeats(trace, heap, settings, limits[i] - 1_B)) return limits[i] - 1_B;
  return heap.implied_capacity;
}

}  // namespace memreel
