#include "analyzer/report/own_frame.h"

#include <algorithm>
#include <array>

#include "analyzer/category/frame_rules.h"

namespace memreel {

bool is_library_file(std::string_view file) {
  static constexpr std::array<std::string_view, 7> marks{
      "site-packages/", "dist-packages/", "/python3.", "/torch/csrc/", "/usr/include/", "/usr/lib/", "/cuda/include/"};
  return file.empty() || file.starts_with("<") || file.starts_with("python3.") ||
         std::any_of(marks.begin(), marks.end(),
                     [&](std::string_view mark) { return file.find(mark) != std::string_view::npos; });
}

bool is_runtime(std::string_view library) {
  static constexpr std::array<std::string_view, 11> names{"libcuda",  "libcudart",  "libcupti",  "libnvidia",
                                                          "libc.so",  "libstdc++",  "libgcc_s",  "libm.so",
                                                          "ld-linux", "libpthread", "libmemreel"};
  return std::ranges::any_of(names, [&](std::string_view name) { return library.starts_with(name); });
}

bool is_library(const FrameText& frame) {
  if (!frame.file.empty() || frame.module_path.empty()) return is_library_file(frame.file);
  const std::string_view path = frame.module_path;
  const std::string_view name = path.substr(path.rfind('/') + 1);
  return path.starts_with('[') || path.starts_with("/lib/") || path.starts_with("/lib64/") || is_library_file(path) ||
         name.starts_with("python3") || name.starts_with("libpython") || is_runtime(name);
}

FrameText own_frame(const std::vector<FrameText>& frames) {
  const auto own = std::find_if(frames.begin(), frames.end(), [](const FrameText& f) { return !is_library(f); });
  if (own != frames.end()) return *own;
  return frames.empty() ? FrameText{} : frames.front();
}

FrameText explaining_frame(const std::vector<FrameText>& frames) {
  for (std::size_t i = 0; i < frames.size(); ++i)
    if (!is_library(frames[i]) || calls_own_module(frames, i)) return frames[i];
  return frames.empty() ? FrameText{} : frames.front();
}

}  // namespace memreel
