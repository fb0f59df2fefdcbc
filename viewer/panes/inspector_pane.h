// What is selected: its life, its place, its stack with the lines of the source.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "viewer/panes/draw.h"

namespace memreel::viewer {

class InspectorPane {
 public:
  void draw(Scene& scene);

 private:
  void draw_trace(Scene& scene);
  void draw_allocation(Scene& scene, std::uint32_t id);
  static void draw_purpose(Scene& scene, const Allocation& a);
  void draw_stack(Scene& scene, StackId stack);
  /// A line of a source file, when the file is here; read once.
  const std::string& source_line(const std::string& file, std::uint32_t line);

  std::map<std::string, std::vector<std::string>> files_;
};

/// What the trace is known to lack, in sentences; nothing when it is whole.
std::vector<std::string> shortcomings(const Document& document);

}  // namespace memreel::viewer
