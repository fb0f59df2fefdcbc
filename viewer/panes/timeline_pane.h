// Reserved, held and live bytes over time; marks; what other policies would have reserved; all of time in small.
#pragma once

#include <cstdint>
#include <vector>

#include "viewer/model/background.h"
#include "viewer/model/course_columns.h"
#include "viewer/model/stacked_course.h"
#include "viewer/panes/draw.h"

namespace memreel::viewer {

class TimelinePane {
 public:
  void draw(Scene& scene);

 private:
  /// What the columns on screen were made for.
  struct Key {
    HeapId heap = HeapId::none;
    TimeRange view;
    std::uint32_t width = 0, version = 0;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct Columns {
    Key key;
    std::vector<CourseColumn> columns;
  };

  void draw_legend(Scene& scene);
  void draw_plot(Scene& scene);
  void draw_course(Scene& scene, ImDrawList& list, const Area& area, std::uint64_t top);
  void draw_groups(Scene& scene, ImDrawList& list, const Area& area, std::uint64_t top);
  void draw_overlays(Scene& scene, ImDrawList& list, const TimeAxis& axis, const Area& area, std::uint64_t top);
  void draw_marks(Scene& scene);
  void draw_minimap(Scene& scene);
  static const std::vector<CourseColumn>& columns_for(Columns& kept, Scene& scene, TimeRange view, float width);

  Columns plot_, minimap_;
  Background<SplitQuery, StackedCourse> groups_;
};

}  // namespace memreel::viewer
