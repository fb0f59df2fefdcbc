// What is selected: its life, its place, its stack with the lines of the source.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "viewer/model/stack_lines.h"
#include "viewer/panes/draw.h"

namespace memreel::viewer {

class InspectorPane {
 public:
  void draw(Scene& scene);

 private:
  void draw_trace(Scene& scene);
  static void draw_range(Scene& scene, TimeRange range);
  static void draw_heading(Scene& scene, std::uint32_t id);
  void choose_part(Scene& scene);
  static void draw_allocation(Scene& scene, std::uint32_t id);
  static void draw_purpose(Scene& scene, const Allocation& a);
  void draw_stack(Scene& scene, StackId stack);
  void draw_frame(Scene& scene, const StackLine& line);
  /// A line of a source file, when the file is here; read once.
  const std::string& source_line(const std::string& file, std::uint32_t line);

  std::map<std::string, std::vector<std::string>> files_;
  std::vector<StackLine> lines_;  // of the stack that was shown last
  StackId lines_of_ = StackId::none;
  std::shared_ptr<const Tables> lines_tables_;  // whose it is
  bool shows_stack_ = true;                     // where there is no room for the details beside it
  bool unfolded_ = false;                       // frames that only pass a call on are shown
};

/// What the trace is known to lack, in sentences; nothing when it is whole.
std::vector<std::string> shortcomings(const Document& document);

}  // namespace memreel::viewer
