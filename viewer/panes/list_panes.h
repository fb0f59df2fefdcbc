// SPDX-License-Identifier: Apache-2.0
// The tables of the lower half: allocations, stacks, segments.
#pragma once

#include <functional>
#include <map>
#include <memory>

#include "analyzer/analysis/insight/kept_by.h"
#include "viewer/model/allocation_list.h"
#include "viewer/model/background.h"
#include "viewer/model/flame.h"
#include "viewer/panes/draw.h"
#include "viewer/panes/table.h"
#include "viewer/panes/verdicts.h"

namespace memreel::viewer {

/// Every allocation of the view.
class AllocationsPane {
 public:
  AllocationsPane();
  void draw(Scene& scene);
  /// Selects the next (1) or previous (-1) match of the search, and moves the cursor to its begin; 0: none. To be
  /// called in every frame.
  void step_match(Scene& scene, int by);
  /// The number of allocations in the view that match the search; 0 without a search.
  std::uint64_t matches() const { return matches_; }
  /// The number of rows of the latest list.
  std::uint64_t listed() { return list_.value() ? list_.value()->size() : 0; }
  /// The progress of the list being built, with a cancel button; nothing if none is.
  void draw_progress(Scene& scene) { draw_job(scene, "allocations", "Listing", list_); }
  /// "3 of 1,234"
  std::string matches_text() const;

 private:
  struct Labels {
    std::string who, layer;
  };
  std::shared_ptr<const AllocationList> request(Scene& scene);
  /// Until the user chooses another order.
  void choose_order(const Document& document);
  const Labels& labels_of(const Scene& scene, std::uint32_t allocation);

  Table table_;
  std::pair<std::optional<int>, bool> opened_by_;  // the table's order unless the user chose one
  std::shared_ptr<const Tables> labelled_;         // the tables that labels_ belong to
  std::shared_ptr<const Classification> classified_;
  // By stack and call. Only recently shown ones, because stacks can be deep.
  std::map<std::pair<StackId, std::uint16_t>, Labels> labels_;
  Background<AllocationQuery, AllocationList> list_;
  std::optional<std::uint32_t> followed_;  // the selected allocation that was last scrolled to
  int step_ = 0;                           // requested while the list was being built
  std::uint64_t matches_ = 0;
  std::optional<std::uint32_t> match_;  // a row of the list
};

/// The quantity that Stacks and Flame weigh: one choice for instants, and one while a range is marked.
class WeighingChoice {
 public:
  /// Draws the buttons that choose it.
  void draw(Scene& scene);
  Weighing of(const Selection& selection) const { return selection.marked ? in_range_ : at_instant_; }

 private:
  Weighing at_instant_ = Weighing::live_at_cursor, in_range_ = Weighing::allocated;
};

/// Memory by stack: live at the cursor, or allocated in the view.
class StacksPane {
 public:
  StacksPane();
  void draw(Scene& scene, Verdicts& verdicts);
  /// The total of all stacks on screen.
  std::uint64_t shown_bytes() const;
  /// "3.2 GiB in 17 stacks", for tests.
  const std::string& summary() const { return summary_; }

 private:
  Table table_;
  WeighingChoice weighing_;
  std::string summary_;
  Background<WeightQuery, std::vector<StackWeight>> weights_;
  std::shared_ptr<const std::vector<StackWeight>> sorted_from_;
  std::vector<StackWeight> sorted_;
  std::optional<int> sorted_by_;
  bool sorted_descending_ = true;
};

/// The segments of the heap at the cursor, or at the reserved peak of the marked range.
class SegmentsPane {
 public:
  SegmentsPane();
  void draw(Scene& scene);
  /// The instant shown: after this many events. For tests.
  std::uint32_t shown_event() const { return shown_event_; }

 private:
  const HeapAt& heap_shown(Scene& scene);

  Table table_;
  HeapAt fullest_;  // at the range's reserved peak; kept until the range changes
  std::uint32_t fullest_version_ = 0;
  std::shared_ptr<const Rounding> fullest_rounding_;
  std::uint32_t shown_event_ = 0;
};

/// The private pools of CUDA graphs and MemPools of a heap.
class PoolsPane {
 public:
  PoolsPane() : table_("pools", columns_of<PrivatePool>()) { table_.set_sort(2, true); }
  void draw(Scene& scene, Verdicts& verdicts);
  /// The number of rows. For tests.
  std::size_t listed() const { return listed_; }

 private:
  Table table_;
  std::size_t listed_ = 0;
};

/// The Python variables, containers and graphs that kept the memory, if the trace has a walk over the program's
/// objects.
class HoldersPane {
 public:
  HoldersPane() : table_("holders", columns_of<PythonHolder>()) {}
  void draw(Scene& scene, Verdicts& verdicts);
  /// The number of rows. For tests.
  std::size_t listed() const { return listed_; }

 private:
  Table table_;
  std::size_t listed_ = 0;
};

/// The key of the weights, for the jobs of several panes.
WeightQuery weight_query(const Scene& scene, Weighing weighing);
/// The job that computes the weights. None if it has to wait for the leak verdicts.
using WeightWork = std::function<std::optional<std::vector<StackWeight>>(const Progress&)>;
std::optional<WeightWork> weight_work(Scene& scene, Verdicts& verdicts, const WeightQuery& query);
/// The message of a pane without weights.
void explain_no_weights(Scene& scene, const Area& area, Weighing weighing, bool is_ready);

}  // namespace memreel::viewer
