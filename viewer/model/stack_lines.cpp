#include "viewer/model/stack_lines.h"

#include <algorithm>
#include <cstdint>
#include <unordered_map>

#include "analyzer/category/frame_rules.h"
#include "analyzer/report/own_frame.h"
#include "formats/model/frame_kind.h"
#include "formats/model/origin_text.h"
#include "viewer/model/labels.h"

namespace memreel::viewer {

std::string frame_name(const Tables& tables, FrameId id) {
  const FrameText frame = frame_text(tables, id);
  if (!frame.function.empty()) return display_name(frame.kind, frame.function);
  if (!frame.file.empty()) return "(unknown)";
  const std::string offset = hexadecimal(tables[id].module_offset);
  if (!frame.module_path.empty()) return std::string(file_name(frame.module_path)) + "+" + offset;
  return tables[id].module_offset != 0 ? offset : "(unknown)";
}

std::vector<StackLine> stack_lines(const Tables& tables, StackId stack) {
  const std::vector<FrameText> frames = frames_of(tables, stack);
  if (frames.empty()) return {};
  std::vector<StackLine> lines;
  std::unordered_map<std::uint32_t, std::size_t> known;  // a recursion has few distinct frames
  for (const FrameText& frame : frames) {
    const FrameId id = tables[stack].frame;
    stack = tables[stack].caller;
    const auto [found, is_new] = known.try_emplace(index(id), lines.size());
    if (!is_new) {
      lines.push_back(lines[found->second]);
      continue;
    }
    lines.push_back({.frame = frame,
                     .name = frame_name(tables, id),
                     .library = frame.owner != CodeOwner::user,
                     .wrapper = passes_on(frame),
                     .unnamed = frame.function.empty() && frame.file.empty()});
  }
  const FrameText own = own_frame(frames);
  const auto first_own = std::ranges::find_if(lines, [&](const StackLine& line) {
    const FrameText& frame = line.frame;
    return frame.function == own.function && frame.file == own.file && frame.line == own.line &&
           frame.module == own.module;
  });
  if (first_own != lines.end()) first_own->own = true;
  return lines;
}

std::string copied_stack(const std::vector<StackLine>& lines) {
  std::string text;
  for (const StackLine& line : lines) text += (line.unnamed ? line.name : text_of(line.frame)) + "\n";
  return text;
}

std::string own_line(const std::vector<StackLine>& lines) {
  const auto own = std::ranges::find(lines, true, &StackLine::own);
  if (own == lines.end()) return {};
  if (own->frame.file.empty()) return own->name;
  return std::string(file_name(own->frame.file)) + ":" + std::to_string(own->frame.line) + "  " + own->name;
}

}  // namespace memreel::viewer
