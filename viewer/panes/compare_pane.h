// SPDX-License-Identifier: Apache-2.0
// Compares two instants of this trace, or two traces, one below the other on one axis: who holds more, who holds less.
#pragma once

#include <array>
#include <memory>

#include "viewer/model/axis.h"
#include "viewer/model/background.h"
#include "viewer/model/comparison.h"
#include "viewer/model/source.h"
#include "viewer/panes/draw.h"
#include "viewer/panes/table.h"

namespace memreel::viewer {

// The time series of two sides, one below the other on one axis.

struct CompareSide {
  Moment moment;
  SideScale scale = SideScale::by_time({});
  std::string title;

  Nanoseconds time() const { return moment.document->time(std::max(moment.event, 1U) - 1); }
};
using CompareSides = std::array<CompareSide, 2>;

class CompareRows {
 public:
  /// Draws both sides over the part of the axis covered by the view of `sides[reference]`. Returns the clicked side and
  /// the number of its events before that position.
  struct Click {
    std::size_t side = 0;
    std::uint32_t event = 0;
  };
  std::optional<Click> draw(Scene& scene, const CompareSides& sides, std::size_t reference, AlignBy by, float height);

 private:
  struct Range {
    double begin = 0, end = 1;
    friend bool operator==(const Range&, const Range&) = default;
  };
  /// The key of the columns on screen.
  struct Key {
    std::array<std::shared_ptr<const Document>, 2> documents;
    std::array<HeapId, 2> heaps{};
    std::array<Nanoseconds, 2> begins{}, ends{};  // of the range, in each side's time
    AlignBy by = AlignBy::time;
    Range range;
    std::uint32_t width = 0;
    friend bool operator==(const Key&, const Key&) = default;
  };
  using Columns = std::array<std::vector<SeriesColumn>, 2>;

  static Range range_of(const Selection& selection, const CompareSides& sides, std::size_t reference);
  void request(Scene& scene, const CompareSides& sides, const Range& range, AlignBy by, float width);
  std::optional<Click> draw_row(Scene& scene, const CompareSides& sides, std::size_t number, const Range& range,
                                std::uint64_t top);
  static void draw_axis(Scene& scene, const CompareSides& sides, const Range& range, AlignBy by);

  Background<Key, Columns> columns_;
  std::optional<double> hovered_, next_hovered_;  // a position on the axis
};

class ComparePane {
 public:
  ComparePane();
  void draw(Scene& scene);

  /// Sets the trace to compare with; empty: compare instants of this one.
  void set_other(std::string file);
  const std::string& other() const { return other_; }
  /// The comparison on screen; null if there is none yet.
  const MomentPair* shown() const { return comparison_.key() ? &comparison_.key()->moments : nullptr; }
  AlignBy aligned_by() const { return align_; }
  std::shared_ptr<const Comparison> comparison() { return comparison_.value(); }

 private:
  enum class ChangesBy : std::uint8_t { stack, category, layer };
  struct Key {
    MomentPair moments;
    ClassificationPair known;
    SievePair sieves;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct Steps {
    bool has_any = false;
    SideScale scale = SideScale::by_time({});
  };
  struct StepsOf {
    std::shared_ptr<const Document> document;
    HeapId heap = HeapId::none;
    friend bool operator==(const StepsOf&, const StepsOf&) = default;
  };

  void draw_controls(Scene& scene);
  /// The other trace once it is read; until then null, and its status is shown.
  std::shared_ptr<const Document> read_other(Scene& scene);
  std::optional<CompareSides> two_traces(Scene& scene);
  CompareSides two_instants(Scene& scene);
  /// Puts both on one axis; returns what they are aligned by.
  AlignBy align(Scene& scene, CompareSides& sides);
  /// The classifications of both sides; requests the other trace's.
  ClassificationPair classified(Scene& scene);
  /// The filters of both sides: the scene's, once the other trace's is ready too.
  SievePair sieves(Scene& scene, const ClassificationPair& known);
  void draw_facts(Scene& scene, const Comparison& comparison) const;
  static void draw_most_changed(Scene& scene, const Comparison& comparison);
  void choose_changes(Scene& scene);
  void draw_changes(Scene& scene, const std::shared_ptr<const Comparison>& comparison);
  void draw_stacks(Scene& scene, const std::shared_ptr<const Comparison>& comparison);
  void draw_categories(Scene& scene, const std::shared_ptr<const Comparison>& comparison);
  void draw_places(Scene& scene, const std::shared_ptr<const Comparison>& comparison);

  Table table_, categories_, places_;
  ChangesBy by_ = ChangesBy::stack;
  bool chosen_above_ = false;  // in this frame: shown beside the moments, not above the list
  std::string other_, typed_;
  std::unique_ptr<Source> source_;  // of the other trace
  bool given_up_ = false;           // stopped reading it
  bool at_peaks_ = true;            // two traces at their peaks, not at the cursor
  AlignBy align_ = AlignBy::time;
  std::array<Background<StepsOf, Steps>, 2> steps_;
  CompareRows rows_;
  std::unique_ptr<ClassificationJob> other_known_ = std::make_unique<ClassificationJob>();
  std::unique_ptr<SieveJob> other_sieve_ = std::make_unique<SieveJob>();
  SievePair sieves_;  // the latest ones
  Background<Key, Comparison> comparison_;
};

}  // namespace memreel::viewer
