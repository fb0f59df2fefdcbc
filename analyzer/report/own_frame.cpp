#include "analyzer/report/own_frame.h"

#include <algorithm>
#include <array>

namespace memreel {

bool is_library_file(std::string_view file) {
  static constexpr std::array<std::string_view, 4> marks{"site-packages/", "dist-packages/", "/python3.",
                                                         "/torch/csrc/"};
  return file.empty() || file.starts_with("<") || file.starts_with("python3.") ||
         std::any_of(marks.begin(), marks.end(),
                     [&](std::string_view mark) { return file.find(mark) != std::string_view::npos; });
}

FrameText own_frame(const std::vector<FrameText>& frames) {
  const auto own =
      std::find_if(frames.begin(), frames.end(), [](const FrameText& f) { return !is_library_file(f.file); });
  if (own != frames.end()) return *own;
  return frames.empty() ? FrameText{} : frames.front();
}

}  // namespace memreel
