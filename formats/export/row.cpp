#include "formats/export/row.h"

namespace memreel {

ExportRow export_row(const Trace& trace, std::size_t i, const AllocationNotes& notes) {
  const Tables& tables = trace.tables;
  ExportRow row{.event = trace.events[i], .ordinal = i};
  const Origin& origin = tables[row.event.origin];
  row.heap = &tables[origin.heap];
  row.heap_name = tables[row.heap->name];
  row.level = row.heap->level == Level::driver ? "driver" : "framework";
  row.stream_handle = tables[origin.stream].handle;
  row.tid = tables[origin.thread].tid;
  if (origin.pool != PoolId::default_pool) row.pool = &tables[origin.pool];
  if (row.event.kind == EventKind::mark && row.event.value < tables.marks.size()) {
    const Mark& mark = tables.marks[row.event.value];
    row.mark_name = tables[mark.name];
    row.mark_phase = mark.phase == MarkPhase::instant ? "instant" : mark.phase == MarkPhase::begin ? "begin" : "end";
  }
  if (row.event.kind == EventKind::alloc) {
    const auto of = [&](std::span<const std::string_view> names) {
      const std::uint32_t id = index(row.event.allocation);
      return id < names.size() ? names[id] : std::string_view{};
    };
    row.category = of(notes.category);
    row.layer = of(notes.layer);
    row.phase = of(notes.phase);
  }
  return row;
}

}  // namespace memreel
