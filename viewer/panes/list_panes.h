// The tables of the lower half: allocations, stacks, segments.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "viewer/model/allocation_list.h"
#include "viewer/model/background.h"
#include "viewer/model/stack_weights.h"
#include "viewer/panes/draw.h"
#include "viewer/panes/table.h"

namespace memreel::viewer {

/// Every allocation of the view.
class AllocationsPane {
 public:
  AllocationsPane();
  void draw(Scene& scene);

 private:
  Table table_;
  Background<AllocationQuery, AllocationList> list_;
  std::optional<std::uint32_t> followed_;  // the selected allocation that was scrolled to
};

/// Who holds memory at the cursor, or allocated in the view.
class StacksPane {
 public:
  StacksPane();
  void draw(Scene& scene);

 private:
  Table table_;
  Weighing weighing_ = Weighing::live_at_cursor;
  Background<WeightQuery, std::vector<StackWeight>> weights_;
  std::shared_ptr<const std::vector<StackWeight>> sorted_from_;
  std::vector<StackWeight> sorted_;
  std::optional<int> sorted_by_;
  bool sorted_descending_ = true;
};

/// The segments of the heap at the cursor.
class SegmentsPane {
 public:
  SegmentsPane();
  void draw(Scene& scene);

 private:
  Table table_;
};

/// What is weighed, for the jobs of several panes.
WeightQuery weight_query(const Scene& scene, Weighing weighing);

}  // namespace memreel::viewer
