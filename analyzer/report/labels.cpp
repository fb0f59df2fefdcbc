#include "analyzer/report/labels.h"

#include <string_view>
#include <vector>

#include "analyzer/report/own_frame.h"

namespace memreel {

std::string line_label(const FrameText& frame) {
  if (frame.file.empty()) return frame.function.empty() ? "(no stack)" : std::string(frame.function);
  return std::string(frame.file) + (frame.line != 0 ? ":" + std::to_string(frame.line) : "");
}

std::string site_label(const Tables& tables, StackId stack) {
  const std::vector<FrameText> frames = frames_of(tables, stack);
  return frames.empty() ? "(no stack)" : text_of(own_frame(frames));
}

}  // namespace memreel
