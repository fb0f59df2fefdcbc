#include "formats/model/stack_text.h"

#include "formats/model/frame_kind.h"

namespace memreel {

FrameText frame_text(const Tables& tables, FrameId id) {
  const Frame& frame = tables[id];
  const std::string_view file = tables[frame.file];
  return {.function = tables[frame.function],
          .file = file == unknown_file ? std::string_view() : file,
          .short_file = file == unknown_file ? std::string_view() : file.substr(frame.short_file_at),
          .line = frame.line,
          .module = frame.module,
          .module_path = tables[tables[frame.module].path],
          .instance = tables[frame.instance],
          .kind = frame.kind,
          .owner = frame.owner};
}

std::vector<FrameText> frames_of(const Tables& tables, StackId stack) {
  std::vector<FrameText> frames;
  for (; stack != StackId::none; stack = tables[stack].caller)
    frames.push_back(frame_text(tables, tables[stack].frame));
  return frames;
}

std::string text_of(const FrameText& frame) {
  const bool is_signature = frame.kind == FrameKind::native && frame.owner == CodeOwner::library;
  std::string text = is_signature ? plain_name(frame.function) : display_name(frame.kind, frame.function);
  if (frame.file.empty() || names_operator(frame.kind)) return text;
  text += text.empty() ? "" : " (";
  text += frame.file;
  if (frame.line != 0) text += ":" + std::to_string(frame.line);
  if (!frame.function.empty()) text += ")";
  if (!frame.instance.empty()) text += " [" + std::string(frame.instance) + "]";
  return text;
}

}  // namespace memreel
