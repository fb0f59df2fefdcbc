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
#include "viewer/panes/stack_labels.h"
#include "viewer/panes/texture.h"
#include "viewer/panes/verdicts.h"

namespace memreel::viewer {

/// How allocations are coloured, by what the selection asks for. `findings`: null while they are made. Made once for a
/// document: afterwards it needs nothing but the allocation's number, on any thread.
ColourOf colours_of(const Scene& scene, const std::shared_ptr<const Findings>& findings);

/// The same, with what is not of the stack or the category that is selected or pointed at pale.
ColourOf with_others_pale(const Scene& scene, ColourOf colour);

class MapPane {
 public:
  void draw(Scene& scene, Verdicts& verdicts);

 private:
  void draw_toolbar(Scene& scene);
  /// What a colour means.
  struct Entry {
    std::string name;
    Colour colour{};
    std::optional<StackId> stack;  // that it is of, or
    std::optional<Category> category;
  };
  std::vector<Entry> named_colours(const Scene& scene);
  void draw_legend(Scene& scene, float right);
  /// Whose colours are worth a word: the stacks that hold most at the cursor.
  const std::vector<StackId>& heaviest_stacks(const Scene& scene);
  void request(Scene& scene, const Area& area, const std::shared_ptr<const Findings>& findings);
  void draw_picture(Scene& scene, ImDrawList& list, const TimeAxis& axis, const Area& area);
  void point(Scene& scene, ImDrawList& list, const TimeAxis& axis, const Area& area);
  /// Bytes and addresses upwards; time to the right where nothing else on screen has it.
  void draw_axes(Scene& scene, ImDrawList& list, const TimeAxis& axis, const Area& area) const;
  /// What large allocations are.
  void draw_labels(Scene& scene, ImDrawList& list, const TimeAxis& axis, const Area& area);
  /// Where a place of the address scale is on screen.
  float y_of(const Area& area, std::uint64_t offset) const;
  /// Where an allocation is on screen; none where it is of another heap.
  std::optional<Area> box_of(const Scene& scene, const TimeAxis& axis, const Area& area, std::uint32_t id) const;
  void frame_allocation(Scene& scene, ImDrawList& list, const TimeAxis& axis, const Area& area, std::uint32_t id,
                        Colour colour) const;

  Background<MapQuery, MapPicture> picture_;
  std::shared_ptr<const MapPicture> shown_;
  Texture texture_;
  StackLabels stack_labels_;
  double low_ = 0, high_ = 1;  // part of the address scale on screen
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
