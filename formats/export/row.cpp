// SPDX-License-Identifier: Apache-2.0
#include "formats/export/row.h"

#include <nlohmann/json.hpp>

#include <map>
#include <ostream>

#include "formats/model/stack_text.h"

namespace memreel {

std::string json_string(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string utf8(std::string_view text) { return nlohmann::json::parse(json_string(text)).get<std::string>(); }

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

namespace {

/// A text in a cell. If a spreadsheet would take it for a formula, it gets a leading apostrophe, which marks text.
std::string csv_cell(std::string_view text) {
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
        << csv_cell(row.heap_name) << ',' << row.level << ',';
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
    if (event.kind == EventKind::mark) out << csv_cell(std::string(row.mark_phase) + " " + std::string(row.mark_name));
    out << ',' << csv_cell(stack_text(trace.tables, frames, event.stack)) << ',' << row.category << ','
        << csv_cell(row.layer) << ',' << row.phase << '\n';
  }
}

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

namespace {

struct Life {
  HeapId heap = HeapId::none;
  std::uint64_t end = 0;  // 0: never freed
};

}  // namespace

void export_minimalloc(const Trace& trace, std::ostream& out) {
  const Events& events = trace.events;
  const auto heap_of = [&](std::size_t i) { return trace.tables[events.origin(i)].heap; };
  std::vector<Life> lives(trace.events.allocation_count());
  std::map<HeapId, std::uint64_t> begins;  // when each heap's time begins
  for (std::size_t i = 0; i < events.count(); ++i) {
    if (index(events.allocation(i)) >= lives.size()) continue;
    Life& life = lives[index(events.allocation(i))];
    if (events.kind(i) == EventKind::alloc) {
      life.heap = heap_of(i);
      begins.try_emplace(life.heap, begins.size() * events.count());
    } else if (life.end == 0 && (events.kind(i) == EventKind::free_completed ||
                                 (events.kind(i) == EventKind::free_requested &&
                                  !trace.tables.heaps[index(life.heap)].observes_completion))) {
      life.end = i;
    }
  }
  out << "id,lower,upper,size\n";
  for (std::size_t i = 0; i < events.count() && out; ++i) {
    if (events.kind(i) != EventKind::alloc) continue;
    const Life& life = lives[index(events.allocation(i))];
    const std::uint64_t begin = begins[life.heap], end = life.end == 0 ? events.count() : life.end;
    out << index(events.allocation(i)) << ',' << begin + i << ',' << begin + end << ',' << events.size(i).count << '\n';
  }
}

}  // namespace memreel
