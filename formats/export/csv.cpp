#include "formats/export/csv.h"

#include <ostream>
#include <string>
#include <vector>

#include "formats/export/row.h"
#include "formats/model/stack_text.h"

namespace memreel {
namespace {

/// A text in a cell. If a spreadsheet would take it for a formula, it gets a leading apostrophe, which marks text.
std::string quoted(std::string_view text) {
  const bool like_formula = !text.empty() && std::string_view("=+-@\t\r").find(text.front()) != std::string_view::npos;
  if (!like_formula && text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string result = like_formula ? "\"'" : "\"";
  for (const char c : text) {
    if (c == '"') result += '"';
    result += c;
  }
  return result + '"';
}

// Frames are few and stacks are many, so only frames are converted to text once.
std::vector<std::string> frame_texts(const Tables& tables) {
  std::vector<std::string> texts;
  texts.reserve(tables.frames.size());
  for (std::uint32_t f = 0; f < tables.frames.size(); ++f) texts.push_back(text_of(frame_text(tables, FrameId{f})));
  return texts;
}

std::string stack_text(const Tables& tables, const std::vector<std::string>& frames, StackId stack) {
  std::string text;
  for (; stack != StackId::none; stack = tables[stack].caller) {
    if (!text.empty()) text += ';';
    text += frames[index(tables[stack].frame)];
  }
  return text;
}

}  // namespace

void export_csv(const Trace& trace, const ExportOptions& options, std::ostream& out) {
  const std::vector<std::string> frames = frame_texts(trace.tables);
  out << "event,time_ns,kind,device,heap,level,pool,stream,thread,address,size,allocation,value,mark,stack,category,"
         "layer,phase\n";
  for (std::size_t i = 0; i < trace.events.count() && out; ++i) {
    const ExportRow row = export_row(trace, i, options.notes);
    const Event& event = row.event;
    out << row.ordinal << ',' << event.time.count() << ',' << name_of(event.kind) << ',' << row.heap->device << ','
        << quoted(row.heap_name) << ',' << row.level << ',';
    if (row.pool != nullptr) out << row.pool->key_high << ':' << row.pool->key_low;
    out << ',' << row.stream_handle << ',';
    if (row.tid != 0) out << row.tid;
    out << ',';
    if (has_address(event.kind)) out << event.address.value;
    out << ',';
    if (has_size(event.kind)) out << event.size.count;
    out << ',';
    if (event.allocation != AllocationId::none) out << index(event.allocation);
    out << ',';
    if (has_value(event.kind) && event.kind != EventKind::mark) out << event.value;
    out << ',';
    if (event.kind == EventKind::mark) out << quoted(std::string(row.mark_phase) + " " + std::string(row.mark_name));
    out << ',' << quoted(stack_text(trace.tables, frames, event.stack)) << ',' << row.category << ','
        << quoted(row.layer) << ',' << row.phase << '\n';
  }
}

}  // namespace memreel
