// SPDX-License-Identifier: Apache-2.0
// The tree of each device's heaps, and the program's own tags: tables of what the analysis found.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "viewer/model/findings.h"
#include "viewer/panes/draw.h"
#include "viewer/panes/table.h"
#include "viewer/panes/verdicts.h"

namespace memreel::viewer {

/// Devices, the driver's heaps on them, the pools made of these, and pools inside pools, when each device held most. A
/// click shows a heap at that moment.
class DevicesPane {
 public:
  DevicesPane();
  void draw(Scene& scene, Verdicts& verdicts);
  /// The number of rows. For tests.
  std::size_t listed() const { return rows_.size(); }

 private:
  struct Row {
    const DeviceMemory* device = nullptr;
    DeviceTreeRow heap;  // of no heap: the device itself
  };

  void list(const std::shared_ptr<const Findings>& findings);

  Table table_;
  std::vector<Row> rows_;
  std::shared_ptr<const Findings> of_;
};

/// What each tag of the program held at its own peak, in the heap that is shown. A click goes there, and splits the
/// timeline by tag.
class TagsPane {
 public:
  TagsPane();
  void draw(Scene& scene, Verdicts& verdicts);
  /// The number of rows. For tests.
  std::size_t listed() const { return listed_; }

 private:
  Table table_;
  std::size_t listed_ = 0;
};

}  // namespace memreel::viewer
