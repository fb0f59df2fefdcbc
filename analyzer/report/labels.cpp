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

std::string hexadecimal(std::uint64_t value) {
  static constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  do {
    text.insert(text.begin(), digits[value & 15U]);
    value >>= 4U;
  } while (value != 0);
  return "0x" + text;
}

}  // namespace memreel
