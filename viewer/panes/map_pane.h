// SPDX-License-Identifier: Apache-2.0
// The allocation map: address over time, each allocation a rectangle.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "viewer/model/allocation_map.h"
#include "viewer/model/background.h"
#include "viewer/panes/draw.h"
#include "viewer/panes/verdicts.h"
#include "viewer/panes/widgets.h"

namespace memreel::viewer {

/// The colours of allocations, as chosen in the selection. `findings`: null until they are ready. Built once for a
/// document; afterwards it needs only the allocation's number, on any thread.
ColourOf colours_of(const Scene& scene, const std::shared_ptr<const Findings>& findings);

/// The same, with everything pale outside the stack or category that is selected or pointed at.
ColourOf with_others_pale(const Scene& scene, ColourOf colour);

class MapPane {
 public:
  void draw(Scene& scene, Verdicts& verdicts);

 private:
  void draw_toolbar(Scene& scene);
  /// A legend entry.
  struct Entry {
    std::string name;
    Colour colour{};
    std::optional<StackId> stack;  // its stack, or
    std::optional<Category> category;
  };
  std::vector<Entry> named_colours(const Scene& scene);
  void draw_legend(Scene& scene, float right);
  /// The stacks in the legend: those that hold most at the cursor.
  const std::vector<StackId>& heaviest_stacks(const Scene& scene);
  void request(Scene& scene, const Area& area, const std::shared_ptr<const Findings>& findings);
  void draw_picture(Scene& scene, ImDrawList& list, const TimeAxis& axis, const Area& area);
  void point(Scene& scene, ImDrawList& list, const TimeAxis& axis, const Area& area);
  /// Labels bytes and addresses upwards; time to the right if no other pane on screen does.
  void draw_axes(Scene& scene, ImDrawList& list, const TimeAxis& axis, const Area& area) const;
  /// Labels large allocations.
  void draw_labels(Scene& scene, ImDrawList& list, const TimeAxis& axis, const Area& area);
  /// The screen position of a position on the address scale.
  float y_of(const Area& area, std::uint64_t offset) const;
  /// The screen area of an allocation; none if it belongs to another heap.
  std::optional<Area> box_of(const Scene& scene, const TimeAxis& axis, const Area& area, std::uint32_t id) const;
  void frame_allocation(Scene& scene, ImDrawList& list, const TimeAxis& axis, const Area& area, std::uint32_t id,
                        Colour colour) const;

  Background<MapQuery, MapPicture> picture_;
  std::shared_ptr<const MapPicture> shown_;
  Texture texture_;
  StackLabels stack_labels_;
  double low_ = 0, high_ = 1;  // visible part of the address scale
  struct Heaviest {
    HeapId heap = HeapId::none;
    std::uint32_t event = 0, version = 0;
    std::vector<StackId> stacks;
  };
  Heaviest heaviest_;
  ImVec2 pointed_at_{-1, -1};
  std::optional<std::uint32_t> pointed_;
};

}  // namespace memreel::viewer
