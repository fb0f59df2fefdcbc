// The viewer as a whole: which file is open, which panes there are and where, what keys do.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "viewer/app/commands.h"
#include "viewer/app/layout.h"
#include "viewer/app/open_dialog.h"
#include "viewer/app/settings.h"
#include "viewer/app/start_page.h"
#include "viewer/app/tour.h"
#include "viewer/app/window.h"
#include "viewer/model/classification.h"
#include "viewer/model/filter.h"
#include "viewer/model/rounding.h"
#include "viewer/model/selection.h"
#include "viewer/model/source.h"
#include "viewer/panes/compare_pane.h"
#include "viewer/panes/flame_pane.h"
#include "viewer/panes/heap_pane.h"
#include "viewer/panes/heaps_pane.h"
#include "viewer/panes/inspector_pane.h"
#include "viewer/panes/list_panes.h"
#include "viewer/panes/map_pane.h"
#include "viewer/panes/policies_pane.h"
#include "viewer/panes/prediction_pane.h"
#include "viewer/panes/ranks_pane.h"
#include "viewer/panes/timeline_pane.h"
#include "viewer/panes/verdict_pane.h"
#include "viewer/panes/verdicts.h"

namespace memreel::viewer {

/// Whose steps an axis counts.
struct AxisKey {
  std::shared_ptr<const Document> document;
  HeapId heap = HeapId::none;
  friend bool operator==(const AxisKey&, const AxisKey&) = default;
};

/// What is shown of one trace, with the jobs that find it out.
struct Panes {
  VerdictPane verdict;
  TimelinePane timeline;
  MapPane map;
  HeapPane heap;
  HeapsPane heaps;
  InspectorPane inspector;
  AllocationsPane allocations;
  StacksPane stacks;
  FlamePane flame;
  SegmentsPane segments;
  LeaksPane leaks;
  FragmentationPane fragmentation;
  FailuresPane failures;
  ComparePane compare;
  Verdicts verdicts;
  RoundingJob rounding;
  ClassificationJob classification;
  SieveJob sieve;
  Background<AxisKey, AxisScale> steps;  // on the axis
  PoliciesPane policies;
};

class Viewer {
 public:
  Viewer(Window& window, Settings settings, Bytes memory_limit = {});

  void open(const std::filesystem::path& file);
  /// Several recordings: the first is shown, and each can be.
  void open_ranks(std::vector<std::filesystem::path> files);
  /// Recordings of a program at several sizes: the last is shown, and what larger runs will need.
  void open_prediction(std::unique_ptr<const PredictionJob> prediction);
  /// Shows no file, and gives up reading it.
  void close();
  /// Shows what is being read already. `is_sample`: it is none of the user's files.
  void open(std::unique_ptr<Source> source, bool is_sample = false);
  /// One pane alone fills the window, or none does.
  void maximise(std::string_view pane) { layout_.maximise(pane); }
  void show_tab(std::string_view name) { layout_.show_tab(name); }
  /// Puts the cursor: "peak", "event:123", "45%", "1.5" (seconds since the beginning). False when it is none of these.
  bool go_to(std::string_view instant);
  void set_dark(bool dark);
  /// Text and all else so many times as large as the screen says; within what is legible.
  void set_text_size(float factor);
  /// Selects the largest allocation with a stack that is held at the cursor.
  void select_largest();
  /// Shows around: in the trace that is open, else in the sample, where it is here.
  void begin_tour();
  void run_policies() { panes_->policies.run(); }
  /// Another trace, for the pane that compares.
  void compare_with(const std::filesystem::path& file) { panes_->compare.set_other(file.string()); }
  /// Whether there is something on a tab for what is open.
  bool has_tab(std::string_view name) const {
    return (name != "heaps" || document_->heaps.size() > 1) && (name != "ranks" || ranks_ != nullptr) &&
           (name != "prediction" || prediction_ != nullptr);
  }

  /// Draws a frame.
  void draw();
  /// The timeline has events on it, or there are none.
  bool shows_events() const { return panes_->timeline.shows_events() || document_->complete; }
  /// Everything is read and every pane shows what was asked for.
  bool is_idle() const;
  bool wants_to_quit() const { return quit_; }
  const Theme& theme() const { return theme_; }
  const Settings& settings() const { return settings_; }
  Selection& selection() { return selection_; }
  const Document& document() const { return *document_; }
  SourceStatus status() const;

  /// What is selected and where things are, for tests.
  nlohmann::json state();

 private:
  void follow_document();
  void forget_document();
  void renumber(const Document& next);
  void update_sieve();
  void update_heap();
  void update_judged(double now);
  void update_axis();
  void update_classification();
  void handle_keys(double seconds);
  void remember_view(double now);
  void switch_colours();
  bool knows_categories() const { return live_known_ && live_known_->knows_any; }
  void make_commands();
  void draw_top_bar(Scene& scene);
  void draw_rank_list(Scene& scene);
  void draw_rank_grid(Scene& scene);
  void choose(const RankChoice& choice);
  void draw_search(Scene& scene);
  void draw_unknowns(Scene& scene);
  void follow(const VerdictAction& action);
  void draw_named(Scene& scene, std::string_view name);
  PaneContents contents(Scene& scene);
  /// Asks for a file, in the folder of the one that is open.
  void begin_to_open();
  void begin(const StartChoice& choice);

  Window& window_;
  Settings settings_;
  Bytes memory_limit_;
  Theme theme_;
  std::unique_ptr<Source> source_;
  std::unique_ptr<const Ranks> ranks_;               // null: one file is open
  std::unique_ptr<const PredictionJob> prediction_;  // null: none was asked for
  RankChoice choice_;                                // with the next frame: this one's scene is of the file
  std::shared_ptr<const Document> document_ = std::make_shared<const Document>();
  Selection selection_;
  AxisBy axis_ = AxisBy::time;               // as it was chosen
  std::shared_ptr<const Document> axis_of_;  // whose events it counts
  TimeRange followed_view_;              // all of the trace as it was; while that is shown, what is added is shown, too
  HeapId followed_heap_ = HeapId::none;  // the one that mattered most when nobody had chosen one
  bool cursor_follows_ = true;           // nobody has put the cursor yet
  bool paused_ = false;
  StartChoice chosen_;               // with the next frame: this one's scene is of the file
  bool close_wanted_ = false;        // with the next frame: this one's scene is of the file
  std::uint32_t grown_to_ = 0;       // events of the document when it last grew,
  double grown_at_ = 0;              // in seconds
  std::uint32_t judged_events_ = 0;  // of the version that is judged; later ones are when that is worth the time
  TimeRange settled_view_;           // where the view came to rest
  TimeRange last_view_;              // in the frame before
  double view_moved_ = 0;            // when it moved last, in seconds
  std::optional<std::string> wanted_instant_;
  HeapAt heap_;
  LiveByCategory live_{};                             // in heap_
  std::shared_ptr<const Classification> live_known_;  // what that rests on
  std::shared_ptr<const Sieve> live_sieve_;
  std::shared_ptr<const Sieve> sieve_;  // what lists and pictures are limited to; null: nothing limits them
  bool sieving_ = false;                // another one is on its way
  std::uint32_t heap_version_ = 0;
  std::shared_ptr<const Rounding> heap_rounding_;  // what heap_ was made with
  std::vector<Overlay> overlays_;
  std::map<std::string, ImVec4> places_;
  bool busy_ = true;
  std::uint64_t frames_ = 0;
  Layout layout_;
  Tour tour_;
  bool quit_ = false, focus_search_ = false;
  int match_step_ = 0;  // to the next (1) or previous (-1) allocation that the search found
  double last_frame_ = 0;
  Commands commands_;
  OpenDialog open_dialog_;

  std::unique_ptr<Panes> panes_ = std::make_unique<Panes>();
};

}  // namespace memreel::viewer
