// Compares two instants of this trace, or two traces, one below the other on one axis: who holds more, who holds less.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>

#include "viewer/model/alignment.h"
#include "viewer/model/background.h"
#include "viewer/model/comparison.h"
#include "viewer/model/source.h"
#include "viewer/panes/compare_rows.h"
#include "viewer/panes/draw.h"
#include "viewer/panes/table.h"

namespace memreel::viewer {

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
