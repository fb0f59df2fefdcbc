// SPDX-License-Identifier: Apache-2.0
// The selection: its lifetime, its address, its stack with source lines, its segment.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "viewer/model/labels.h"
#include "viewer/panes/draw.h"
#include "viewer/panes/space_view.h"

namespace memreel::viewer {

class InspectorPane {
 public:
  void draw(Scene& scene);
  /// The segment on screen; null: none. For tests.
  const Space* space() const { return shows_space_ ? space_.shown() : nullptr; }

 private:
  void draw_selected(Scene& scene);
  void draw_trace(Scene& scene);
  static void draw_range(Scene& scene, TimeRange range);
  static void draw_heading(Scene& scene, std::uint32_t id);
  void choose_part(Scene& scene, bool whole, bool offers_space);
  void draw_allocation(Scene& scene, std::uint32_t id);
  static void draw_purpose(Scene& scene, const Allocation& a);
  void draw_stack(Scene& scene, StackId stack);
  void draw_frame(Scene& scene, const StackLine& line);
  /// A line of a source file, if the file is available; read once.
  const std::string& source_line(const std::string& file, std::uint32_t line);

  std::map<std::string, std::vector<std::string>> files_;
  std::vector<StackLine> lines_;  // of the stack shown last
  StackId lines_of_ = StackId::none;
  std::shared_ptr<const Tables> lines_tables_;  // the tables that it belongs to
  float details_height_ = 0;                    // of an allocation as last drawn, in units of length; 0: not yet
  bool shows_stack_ = true;                     // instead of the details, if there is no room for both
  bool wants_space_ = false;                    // the segment of a selected allocation instead of both
  bool shows_space_ = false;
  SpaceView space_;
  bool unfolded_ = false;  // whether frames that only pass a call on are shown
};

/// What the trace is known to lack, in sentences; empty if it is complete.
std::vector<std::string> shortcomings(const Document& document);

}  // namespace memreel::viewer
