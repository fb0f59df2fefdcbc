#include "collector/record/trace_facts.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "formats/model/live_set.h"
#include "formats/reader/trace_reader.h"

namespace memreel::record {
namespace {

/// Whether a heap's bytes are the device's own: pools' bytes are inside them.
bool is_device_memory(const Heap& heap) {
  return heap.level == Level::driver && heap.device >= 0 && heap.parent == HeapId::none;
}

Bytes held_on(std::int32_t device, const LiveSet& live, const Tables& tables) {
  Bytes held{};
  for (const HeapState& state : live.heaps()) {
    const Heap& heap = tables[state.heap];
    if (is_device_memory(heap) && heap.device == device) held += std::max(state.live, state.reserved);
  }
  return held;
}

}  // namespace

Result<TraceFacts> facts_of(const std::filesystem::path& trace) {
  auto file = open_file(trace);
  if (!file) return std::move(file).error();
  TraceFacts facts{.file_size = {(*file)->size()}};
  auto reader = TraceReader::open(*file, trace.string());
  if (!reader) return std::move(reader).error();

  const Tables& tables = reader->tables();
  LiveSet live(tables);
  EventBatch batch;
  while (true) {
    const auto more = reader->next(batch);
    if (!more) return more.error();
    if (!*more) break;
    for (std::size_t i = 0; i < batch.events.count(); ++i) {
      Event event = batch.events[i];
      if (event.kind == EventKind::alloc) event.allocation = static_cast<AllocationId>(batch.first_allocation++);
      live.apply(event);
      const Heap& heap = tables[tables[event.origin].heap];
      if (!is_device_memory(heap)) continue;
      if (event.kind == EventKind::alloc_failed) ++facts.devices[heap.device].failures;
      if (event.kind == EventKind::alloc || is_segment(event.kind)) {
        Bytes& peak = facts.devices[heap.device].peak;
        peak = std::max(peak, held_on(heap.device, live, tables));
      }
    }
    facts.events += batch.events.count();
  }
  for (auto& [number, device] : facts.devices) device.end = held_on(number, live, tables);
  const Losses& losses = reader->losses();
  facts.lost = losses.ring_full + losses.hook_refused + reader->report().missing_events;
  facts.folded = losses.folded_events;
  facts.complete = reader->report().has_footer;
  return facts;
}

}  // namespace memreel::record
