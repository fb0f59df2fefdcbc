// SPDX-License-Identifier: Apache-2.0
// A trace as text, complete and plain: what golden files are compared by.
#pragma once

#include <sstream>
#include <string>

#include "formats/model/trace.h"

namespace memreel::testing {

inline std::string dump(const Trace& trace) {
  std::ostringstream out;
  const Tables& t = trace.tables;
  const Header& h = trace.header;
  out << "header " << h.producer << '|' << h.source << '|' << h.source_name << '|' << h.host << '|' << h.process
      << '\n';
  if (h.start.count() != 0) out << "start " << h.start.count() << '\n';
  if (!h.machine.empty()) out << "machine " << h.machine << '\n';
  if (h.byte_order != ByteOrder::unknown) out << "byte order " << static_cast<int>(h.byte_order) << '\n';
  if (h.page_size.count != 0) out << "pages " << h.page_size.count << '\n';
  for (const auto& [name, value] : h.environment) out << "environment " << name << '=' << value << '\n';
  for (const auto& [name, value] : h.versions) out << "version " << name << '=' << value << '\n';
  const Losses& l = trace.losses;
  out << "losses " << l.ring_full << ' ' << l.stack_table_full << ' ' << l.hook_refused << ' ' << l.unknown_actions
      << ' ' << l.unmatched_frees << ' ' << l.preexisting_allocations << ' ' << l.began_late << ' '
      << l.history_overflowed << '\n';
  if (l.folded_events != 0)
    out << "folded " << l.folded_events << ' ' << l.folded_until.count() << ' ' << l.folded_left_out << '\n';
  for (const FoldedRow& row : trace.folded.rows)
    out << "sum from " << (trace.folded.begin + row.interval * trace.folded.interval).count() << " for "
        << trace.folded.interval.count() << " heap " << t[t[row.heap].name] << " stack "
        << t[t[t[row.stack].frame].function] << " allocations " << row.allocations << ',' << row.allocated.count
        << " frees " << row.frees << ',' << row.freed.count << '\n';
  for (std::size_t i = 0; i < trace.events.count(); ++i) {
    const Event e = trace.events[i];
    out << e.time.count() << ' ' << name_of(e.kind);
    const Origin origin = t[e.origin];
    const Heap heap = t[origin.heap];
    const Pool pool = t[origin.pool];
    const Thread thread = t[origin.thread];
    out << " heap " << t[heap.name] << ',' << t[t[heap.parent].name] << ',' << heap.device << ','
        << static_cast<int>(heap.level) << ',' << heap.observes_completion;
    out << " pool " << t[pool.name] << ',' << pool.key_high << ',' << pool.key_low << ',' << pool.inferred;
    out << " stream " << t[origin.stream].handle << " thread " << thread.tid << ',' << t[thread.name];
    if (e.allocation != AllocationId::none) out << " allocation " << index(e.allocation);
    out << " address " << e.address.value << " size " << e.size.count << " value " << e.value;
    if (e.kind == EventKind::mark) {
      const Mark mark = t[MarkId{static_cast<std::uint32_t>(e.value)}];
      out << ' ' << t[mark.name] << ',' << static_cast<int>(mark.phase);
    }
    if (e.kind == EventKind::settings)
      for (const auto& [key, value] : t[SettingsId{static_cast<std::uint32_t>(e.value)}].entries)
        out << ' ' << t[key] << '=' << t[value];
    for (StackId stack = e.stack; stack != StackId::none; stack = t[stack].caller) {
      const Frame frame = t[t[stack].frame];
      const Module module = t[frame.module];
      out << " < " << t[frame.function] << ',' << t[frame.file] << ',' << frame.line << ',' << t[module.path] << ','
          << module.build_id.size() << ',' << module.base.value << ',' << module.size.count << ','
          << frame.module_offset;
    }
    out << '\n';
  }
  return out.str();
}

}  // namespace memreel::testing
