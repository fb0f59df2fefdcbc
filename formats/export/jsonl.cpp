#include "formats/export/jsonl.h"

#include <ostream>
#include <string>
#include <vector>

#include "formats/export/row.h"
#include "formats/export/text.h"
#include "formats/model/stack_text.h"

namespace memreel {
namespace {

std::vector<std::string> frame_objects(const Tables& tables) {
  std::vector<std::string> objects;
  objects.reserve(tables.frames.size());
  for (std::uint32_t f = 0; f < tables.frames.size(); ++f) {
    const FrameText frame = frame_text(tables, FrameId{f});
    objects.push_back("{\"function\":" + json_string(frame.function) + ",\"file\":" + json_string(frame.file) +
                      ",\"line\":" + std::to_string(frame.line) + "}");
  }
  return objects;
}

}  // namespace

void export_jsonl(const Trace& trace, const ExportOptions& options, std::ostream& out) {
  const Tables& tables = trace.tables;
  const std::vector<std::string> frames = frame_objects(tables);
  for (std::size_t i = 0; i < trace.events.count() && out; ++i) {
    const ExportRow row = export_row(trace, i, options.notes);
    const Event& event = row.event;
    out << "{\"event\":" << row.ordinal << ",\"time_ns\":" << event.time.count() << ",\"kind\":\""
        << name_of(event.kind) << "\",\"device\":" << row.heap->device << ",\"heap\":" << json_string(row.heap_name)
        << ",\"level\":\"" << row.level << "\",\"stream\":" << row.stream_handle;
    if (row.pool != nullptr) out << ",\"pool\":[" << row.pool->key_high << ',' << row.pool->key_low << ']';
    if (row.tid != 0) out << ",\"thread\":" << row.tid;
    if (has_address(event.kind)) out << ",\"address\":" << event.address.value;
    if (has_size(event.kind)) out << ",\"size\":" << event.size.count;
    if (event.allocation != AllocationId::none) out << ",\"allocation\":" << index(event.allocation);
    if (event.kind == EventKind::mark) {
      out << ",\"mark\":" << json_string(row.mark_name) << ",\"phase\":\"" << row.mark_phase << '"';
    } else if (has_value(event.kind)) {
      out << ",\"value\":" << event.value;
    }
    if (event.stack != StackId::none) {
      out << ",\"stack\":[";
      for (StackId stack = event.stack; stack != StackId::none; stack = tables[stack].caller) {
        if (stack != event.stack) out << ',';
        out << frames[index(tables[stack].frame)];
      }
      out << ']';
    }
    if (!row.category.empty())
      out << ",\"category\":\"" << row.category << "\",\"layer\":" << json_string(row.layer) << ",\"phase\":\""
          << row.phase << '"';
    out << "}\n";
  }
}

}  // namespace memreel
