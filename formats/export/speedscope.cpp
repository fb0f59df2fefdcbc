// SPDX-License-Identifier: Apache-2.0
#include "formats/export/exporters.h"

#include <algorithm>
#include <ostream>
#include <string>
#include <vector>

#include "formats/export/row.h"
#include "formats/export/stack_weights.h"
#include "formats/model/stack_text.h"

namespace memreel {
namespace {

void write_frames(const Tables& tables, std::ostream& out) {
  // Row 0 represents memory recorded without a stack.
  out << "{\"frames\":[{\"name\":\"(no stack)\"}";
  for (std::uint32_t f = 1; f < tables.frames.size(); ++f) {
    const FrameText frame = frame_text(tables, FrameId{f});
    out << ",\n{\"name\":" << json_string(frame.function.empty() ? "(unknown)" : frame.function);
    const std::string_view file = frame.file.empty() ? frame.module_path : frame.file;
    if (!file.empty()) out << ",\"file\":" << json_string(file);
    if (frame.line != 0) out << ",\"line\":" << frame.line;
    out << '}';
  }
  out << "]}";
}

/// Outermost first, as in speedscope.
void write_stack(const Tables& tables, StackId stack, std::ostream& out) {
  std::vector<std::uint32_t> frames;
  for (; stack != StackId::none; stack = tables[stack].caller) frames.push_back(index(tables[stack].frame));
  if (frames.empty()) frames.push_back(0);
  out << '[';
  for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame)
    out << (frame == frames.rbegin() ? "" : ",") << *frame;
  out << ']';
}

/// The weights of one heap's stacks, summed over streams and pools.
std::vector<StackWeight> held_in(HeapId heap, const Tables& tables, const std::vector<StackWeight>& weights) {
  std::vector<StackWeight> held;
  for (const StackWeight& weight : weights) {
    if (tables[weight.origin].heap != heap || weight.live_bytes == 0_B) continue;
    if (held.empty() || held.back().stack != weight.stack)
      held.push_back(weight);
    else
      held.back().live_bytes += weight.live_bytes;
  }
  return held;
}

void write_profile(const std::string& name, const std::vector<StackWeight>& held, const Tables& tables,
                   std::ostream& out) {
  Bytes total;
  for (const StackWeight& weight : held) total += weight.live_bytes;
  out << R"({"type":"sampled","name":)" << json_string(name) << R"(,"unit":"bytes","startValue":0,"endValue":)"
      << total.count << ",\"samples\":[";
  for (const StackWeight& weight : held) {
    if (&weight != held.data()) out << ",\n";
    write_stack(tables, weight.stack, out);
  }
  out << "],\"weights\":[";
  for (const StackWeight& weight : held) out << (&weight == held.data() ? "" : ",") << weight.live_bytes.count;
  out << "]}";
}

}  // namespace

void export_speedscope(const Trace& trace, const ExportOptions& options, std::ostream& out) {
  const Tables& tables = trace.tables;
  const std::vector<StackWeight> weights = stack_weights(trace, options.events);
  out << R"({"$schema":"https://www.speedscope.app/file-format-schema.json","exporter":"memreel","name":)"
      << json_string(trace.header.source_name.empty() ? "memreel" : trace.header.source_name)
      << ",\"activeProfileIndex\":0,\"shared\":";
  write_frames(tables, out);
  out << ",\n\"profiles\":[";
  bool is_first = true;
  for (std::uint32_t h = 0; h < tables.heaps.size(); ++h) {
    const std::vector<StackWeight> held = held_in(HeapId{h}, tables, weights);
    if (held.empty()) continue;
    if (!is_first) out << ",\n";
    is_first = false;
    const Heap& heap = tables.heaps[h];
    write_profile(tables[heap.name] + ", device " + std::to_string(heap.device) +
                      (options.events ? ": live memory" : ": live memory at its peak"),
                  held, tables, out);
  }
  if (is_first) write_profile("nothing is live", {}, tables, out);  // it can't open files without a profile
  out << "]}\n";
}

}  // namespace memreel
