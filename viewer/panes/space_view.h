// SPDX-License-Identifier: Apache-2.0
// The part of the inspector about a segment, or a hole in it: its blocks, until when each lives, what keeps it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "viewer/model/space.h"
#include "viewer/panes/scene.h"
#include "viewer/panes/table.h"

namespace memreel::viewer {

class SpaceView {
 public:
  SpaceView();
  /// `address`: in the heap at the cursor.
  void draw(Scene& scene, Address address);
  /// What was drawn last; null: nothing is reserved there. For tests.
  const Space* shown() const { return space_.get(); }

 private:
  struct Key {
    std::shared_ptr<const Document> document;
    HeapId heap = HeapId::none;
    std::uint32_t event = 0;
    bool has_rounding = false;
    Address address;
    friend bool operator==(const Key&, const Key&) = default;
  };

  void draw_hole(const Scene& scene) const;
  void draw_segment(Scene& scene) const;
  void draw_places(Scene& scene);
  void draw_blocks(Scene& scene);

  Key key_;
  std::shared_ptr<const Space> space_;
  Table places_, blocks_;
};

}  // namespace memreel::viewer
