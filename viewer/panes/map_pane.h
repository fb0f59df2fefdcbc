// The allocation map: address over time, each allocation a rectangle.
#pragma once

#include <memory>

#include "viewer/model/allocation_map.h"
#include "viewer/model/background.h"
#include "viewer/panes/draw.h"
#include "viewer/panes/texture.h"
#include "viewer/panes/verdicts.h"

namespace memreel::viewer {

/// How allocations are coloured, by what the selection asks for. `findings`: null while they are made. Made once for a
/// document: afterwards it needs nothing but the allocation's number, on any thread.
ColourOf colours_of(const Scene& scene, const std::shared_ptr<const Findings>& findings);

class MapPane {
 public:
  void draw(Scene& scene, Verdicts& verdicts);

 private:
  void draw_toolbar(Scene& scene);
  static void draw_legend(Scene& scene, float right);
  void request(Scene& scene, const Area& area, const std::shared_ptr<const Findings>& findings);
  void draw_picture(Scene& scene, ImDrawList& list, const TimeAxis& axis, const Area& area);
  void point(Scene& scene, ImDrawList& list, const TimeAxis& axis, const Area& area);
  void frame_allocation(Scene& scene, ImDrawList& list, const TimeAxis& axis, const Area& area, std::uint32_t id,
                        Colour colour) const;

  Background<MapQuery, MapPicture> picture_;
  std::shared_ptr<const MapPicture> shown_;
  Texture texture_;
  double low_ = 0, high_ = 1;  // part of the address scale on screen
  ImVec2 pointed_at_{-1, -1};
  std::optional<std::uint32_t> pointed_;
};

}  // namespace memreel::viewer
