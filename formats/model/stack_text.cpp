// SPDX-License-Identifier: Apache-2.0
#include "formats/model/stack_text.h"

#include "formats/model/frame_kind.h"
#include "formats/model/quantity.h"

namespace memreel {

std::string stream_label(const Tables& tables, StreamId id) {
  return id == StreamId::default_stream ? "default" : hexadecimal(tables[id].handle);
}

std::string pool_label(const Tables& tables, PoolId id) {
  if (id == PoolId::default_pool) return "default";
  const Pool& pool = tables[id];
  std::string label = tables[pool.name];
  if (label.empty()) label = "(" + std::to_string(pool.key_high) + ", " + std::to_string(pool.key_low) + ")";
  return label + (pool.inferred ? " inferred" : "");
}

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
  std::size_t depth = 0;
  for (StackId at = stack; at != StackId::none; at = tables[at].caller) ++depth;
  std::vector<FrameText> frames;
  frames.reserve(depth);
  for (; stack != StackId::none; stack = tables[stack].caller)
    frames.push_back(frame_text(tables, tables[stack].frame));
  return frames;
}

std::string text_of(const FrameText& frame) {
  std::string text = display_name(frame.kind, frame.function);
  if (const std::string name = plain_name(frame.function);
      frame.kind == FrameKind::native &&
      (name.starts_with("at::") || name.starts_with("c10::") || name.starts_with("torch::")))
    text = name;  // PyTorch's signatures are longer than a line
  if (frame.file.empty() || names_operator(frame.kind)) return text;
  text += text.empty() ? "" : " (";
  text += frame.file;
  if (frame.line != 0) text += ":" + std::to_string(frame.line);
  if (!frame.function.empty()) text += ")";
  if (!frame.instance.empty()) text += " [" + std::string(frame.instance) + "]";
  return text;
}

}  // namespace memreel
