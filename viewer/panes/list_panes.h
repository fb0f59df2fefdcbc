// The tables of the lower half: allocations, stacks, segments.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "viewer/model/allocation_list.h"
#include "viewer/model/background.h"
#include "viewer/model/stack_weights.h"
#include "viewer/panes/draw.h"
#include "viewer/panes/table.h"
#include "viewer/panes/verdicts.h"

namespace memreel::viewer {

/// Every allocation of the view.
class AllocationsPane {
 public:
  AllocationsPane();
  void draw(Scene& scene);
  /// Selects the next (1) or previous (-1) allocation that the search found, and puts the cursor where it begins;
  /// 0: none. To be called in every frame.
  void step_match(Scene& scene, int by);
  /// How many allocations the search found in the view; 0 without one.
  std::uint64_t matches() const { return matches_; }
  /// How many rows the latest list has.
  std::uint64_t listed() { return list_.value() ? list_.value()->size() : 0; }
  /// How far the list is that is made, with a button that gives it up; nothing when none is.
  void draw_progress(Scene& scene) { draw_job(scene, "allocations", "Listing", list_); }
  /// "3 of 1,234"
  std::string matches_text() const;

 private:
  struct Labels {
    std::string who, layer;
  };
  std::shared_ptr<const AllocationList> request(Scene& scene);
  const Labels& labels_of(const Scene& scene, std::uint32_t allocation);

  Table table_;
  std::shared_ptr<const Tables> labelled_;  // what labels_ are of
  std::shared_ptr<const Classification> classified_;
  // By stack and call. Stacks can be deep: those on screen lately.
  std::map<std::pair<StackId, std::uint16_t>, Labels> labels_;
  Background<AllocationQuery, AllocationList> list_;
  std::optional<std::uint32_t> followed_;  // the selected allocation that was scrolled to
  int step_ = 0;                           // asked for while the list was being made
  std::uint64_t matches_ = 0;
  std::optional<std::uint32_t> match_;  // row of the list
};

/// What Stacks and Flame weigh: one choice for instants, and one for a range while one is marked.
class WeighingChoice {
 public:
  /// Buttons that choose it.
  void draw(Scene& scene);
  Weighing of(const Selection& selection) const { return selection.marked ? in_range_ : at_instant_; }

 private:
  Weighing at_instant_ = Weighing::live_at_cursor, in_range_ = Weighing::allocated;
};

/// Who holds memory at the cursor, or allocated in the view.
class StacksPane {
 public:
  StacksPane();
  void draw(Scene& scene, Verdicts& verdicts);
  /// What all stacks on screen stand for together.
  std::uint64_t shown_bytes() const;

 private:
  Table table_;
  WeighingChoice weighing_;
  Background<WeightQuery, std::vector<StackWeight>> weights_;
  std::shared_ptr<const std::vector<StackWeight>> sorted_from_;
  std::vector<StackWeight> sorted_;
  std::optional<int> sorted_by_;
  bool sorted_descending_ = true;
};

/// The segments of the heap at the cursor, or when most was reserved in the range that is marked.
class SegmentsPane {
 public:
  SegmentsPane();
  void draw(Scene& scene);
  /// Of what instant: after so many events. For tests.
  std::uint32_t shown_event() const { return shown_event_; }

 private:
  const HeapAt& heap_shown(Scene& scene);

  Table table_;
  HeapAt fullest_;  // in the range; kept while that is the same
  std::uint32_t fullest_version_ = 0;
  std::shared_ptr<const Rounding> fullest_rounding_;
  std::uint32_t shown_event_ = 0;
};

/// What is weighed, for the jobs of several panes.
WeightQuery weight_query(const Scene& scene, Weighing weighing);
/// The job that weighs it. None when it has to wait for the verdict on leaks.
using WeightWork = std::function<std::optional<std::vector<StackWeight>>(const Progress&)>;
std::optional<WeightWork> weight_work(Scene& scene, Verdicts& verdicts, const WeightQuery& query);
/// What a pane says instead of weights of which there are none.
void explain_no_weights(Scene& scene, const Area& area, Weighing weighing, bool is_ready);

}  // namespace memreel::viewer
