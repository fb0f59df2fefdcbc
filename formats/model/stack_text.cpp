#include "formats/model/stack_text.h"

namespace memreel {

FrameText frame_text(const Tables& tables, FrameId id) {
  const Frame& frame = tables[id];
  return {.function = tables[frame.function],
          .file = tables[frame.file],
          .line = frame.line,
          .module = frame.module,
          .module_path = tables[tables[frame.module].path],
          .instance = tables[frame.instance]};
}

std::vector<FrameText> frames_of(const Tables& tables, StackId stack) {
  std::vector<FrameText> frames;
  for (; stack != StackId::none; stack = tables[stack].caller)
    frames.push_back(frame_text(tables, tables[stack].frame));
  return frames;
}

std::string text_of(const FrameText& frame) {
  std::string text(frame.function);
  if (frame.file.empty()) return text;
  text += text.empty() ? "" : " (";
  text += frame.file;
  if (frame.line != 0) text += ":" + std::to_string(frame.line);
  if (!frame.function.empty()) text += ")";
  if (!frame.instance.empty()) text += " [" + std::string(frame.instance) + "]";
  return text;
}

}  // namespace memreel
