#include "formats/export/minimalloc.h"

#include <cstdint>
#include <map>
#include <ostream>
#include <vector>

namespace memreel {
namespace {

struct Life {
  HeapId heap = HeapId::none;
  std::uint64_t end = 0;  // 0: never freed
};

}  // namespace

void export_minimalloc(const Trace& trace, std::ostream& out) {
  const EventColumns& events = trace.events;
  const auto heap_of = [&](std::size_t i) { return trace.tables[events.origin[i]].heap; };
  std::vector<Life> lives(trace.allocation_events.size());
  std::map<HeapId, std::uint64_t> begins;  // when each heap's time begins
  for (std::size_t i = 0; i < events.count(); ++i) {
    if (index(events.allocation[i]) >= lives.size()) continue;
    Life& life = lives[index(events.allocation[i])];
    if (events.kind[i] == EventKind::alloc) {
      life.heap = heap_of(i);
      begins.try_emplace(life.heap, begins.size() * events.count());
    } else if (life.end == 0 && (events.kind[i] == EventKind::free_completed ||
                                 (events.kind[i] == EventKind::free_requested &&
                                  !trace.tables.heaps[index(life.heap)].observes_completion))) {
      life.end = i;
    }
  }
  out << "id,lower,upper,size\n";
  for (std::size_t i = 0; i < events.count() && out; ++i) {
    if (events.kind[i] != EventKind::alloc) continue;
    const Life& life = lives[index(events.allocation[i])];
    const std::uint64_t begin = begins[life.heap], end = life.end == 0 ? events.count() : life.end;
    out << index(events.allocation[i]) << ',' << begin + i << ',' << begin + end << ',' << events.size[i].count << '\n';
  }
}

}  // namespace memreel
