#include "analyzer/report/labels.h"

#include <string_view>
#include <vector>

#include "analyzer/category/frame_rules.h"
#include "analyzer/report/own_frame.h"

namespace memreel {
namespace {

std::string_view base_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

/// The path below the package installation directory; empty if the file is in none.
std::string_view in_package(std::string_view file) {
  for (const std::string_view mark : {"site-packages/", "dist-packages/"})
    if (const std::size_t at = file.rfind(mark); at != std::string_view::npos) return file.substr(at + mark.size());
  return is_of_torch(file) ? file.substr(file.rfind("torch/")) : std::string_view();
}

}  // namespace

std::string line_label(const FrameText& frame) {
  if (frame.file.empty()) return std::string(frame.function.empty() ? no_stack_label : frame.function);
  const std::string_view package = in_package(frame.file);
  return std::string(package.empty() ? frame.file : package) +
         (frame.line != 0 ? ":" + std::to_string(frame.line) : "");
}

std::string library_label(const std::vector<FrameText>& frames) {
  for (const FrameText& frame : frames) {
    const std::string_view name = base_name(frame.module_path);
    if (is_runtime(name) || name.starts_with("libc10") || name.starts_with("libpython")) continue;
    if (name.starts_with("lib")) return std::string(name);
    const std::string_view package = in_package(frame.file);
    if (!package.empty()) return std::string(package.substr(0, package.find('/')));
    if (!is_library(frame)) return "own code";
  }
  return "not known";
}

std::string place_label(FrameText frame) {
  if (const std::string_view package = in_package(frame.file); !package.empty()) frame.file = package;
  const std::string text = text_of(frame);
  return text.empty() ? std::string(base_name(frame.module_path)) : text;
}

std::string short_label(FrameText frame) {
  frame.file = base_name(frame.file);
  return text_of(frame);
}

std::string site_label(const Tables& tables, StackId stack) {
  const std::vector<FrameText> frames = frames_of(tables, stack);
  return frames.empty() ? std::string(no_stack_label) : place_label(explaining_frame(frames));
}

}  // namespace memreel
