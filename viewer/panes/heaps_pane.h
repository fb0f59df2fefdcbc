// SPDX-License-Identifier: Apache-2.0
// The heaps of all devices under each other, on the timeline's axis.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "viewer/model/background.h"
#include "viewer/model/heap_series.h"
#include "viewer/panes/draw.h"

namespace memreel::viewer {

class HeapsPane {
 public:
  void draw(Scene& scene);
  /// The number of heaps, for tests.
  std::size_t shown() const { return shown_ ? shown_->size() : 0; }

 private:
  struct Key {
    TimeRange view;
    AxisScale axis;
    std::uint32_t width = 0, version = 0;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct Row {
    HeapId heap = HeapId::none;
    std::vector<SeriesColumn> columns;
  };
  using Rows = std::vector<Row>;

  void draw_row(Scene& scene, const Row& row, const Area& area, std::uint64_t top);

  Background<Key, Rows> rows_;
  std::shared_ptr<const Rows> shown_;
  bool one_scale_ = true;  // all rows share one scale of bytes
};

}  // namespace memreel::viewer
