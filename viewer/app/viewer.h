// SPDX-License-Identifier: Apache-2.0
// The viewer as a whole: the open file, the panes and their layout, what keys do.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <filesystem>
#include <map>
#include <memory>

#include "viewer/app/commands.h"
#include "viewer/app/layout.h"
#include "viewer/app/open_dialog.h"
#include "viewer/app/start_page.h"
#include "viewer/app/window.h"
#include "viewer/model/findings.h"
#include "viewer/model/heap_at.h"
#include "viewer/model/selection.h"
#include "viewer/model/source.h"
#include "viewer/model/typed_input.h"
#include "viewer/panes/compare_pane.h"
#include "viewer/panes/focus.h"
#include "viewer/panes/instant_panes.h"
#include "viewer/panes/list_panes.h"
#include "viewer/panes/time_panes.h"
#include "viewer/panes/verdicts.h"

namespace memreel::viewer {

/// Identifies the steps that an axis counts.
struct AxisKey {
  std::shared_ptr<const Document> document;
  HeapId heap = HeapId::none;
  friend bool operator==(const AxisKey&, const AxisKey&) = default;
};

/// The views of one trace, with the jobs that compute them.
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
  PoolsPane pools;
  HoldersPane holders;
  DevicesPane devices;
  TagsPane tags;
  LeaksPane leaks;
  FragmentationPane fragmentation;
  FailuresPane failures;
  ComparePane compare;
  Verdicts verdicts;
  RoundingJob rounding;
  ClassificationJob classification;  // after `verdicts`, so that it is stopped first: they may wait for it
  SieveJob sieve;
  Background<AxisKey, AxisScale> steps;  // of the axis
  PoliciesPane policies;
};

class Viewer {
 public:
  Viewer(Window& window, Settings settings, Bytes memory_limit = {});

  /// Opens a file, or a folder with recordings of a job. What is shown stays until the file is known to be readable,
  /// and if it is not: a line above the panes then says why.
  void open(const std::filesystem::path& file);
  /// Opens several recordings, of the ranks of a job: shows the answer about it; any can be selected. The one that
  /// decides is opened behind it.
  void open_ranks(std::vector<std::filesystem::path> files);
  /// `file` is being opened, and is the only recording of its folder. If it is a rank of a job, says which others are
  /// missing, and has the answer about the job.
  void look_for_missing_ranks(const std::filesystem::path& file);
  /// Opens recordings of a program at several sizes: shows the last, and a prediction of larger runs.
  void open_prediction(std::unique_ptr<const PredictionJob> prediction);
  /// Closes the file and stops reading it.
  void close();
  /// The same for a source that is already being read. `is_sample`: not one of the user's files.
  void open(std::unique_ptr<Source> source, bool is_sample = false);
  /// Makes one pane fill the window, or none.
  void maximise(std::string_view pane) { layout_.maximise(pane); }
  void show_tab(std::string_view name) { layout_.show_tab(name); }
  /// Sets the cursor: "peak", "event:123", "45%", "1.5" (seconds since the beginning). Returns false if it is none of
  /// these.
  bool go_to(std::string_view instant);
  void set_dark(bool dark);
  /// Scales text and everything else relative to the screen's default; clamped to what is legible.
  void set_text_size(float factor);
  /// Selects the largest allocation held at the cursor that has a stack.
  void select_largest();
  /// Opens the sample, if it is installed.
  void open_sample();
  /// Starts the tour in the open trace, else in the sample if it is installed.
  void begin_tour();
  void run_policies() { panes_->policies.run(); }
  /// Sets the other trace of the compare pane.
  void compare_with(const std::filesystem::path& file) { panes_->compare.set_other(file.string()); }
  /// Whether a tab has content for the open file.
  bool has_tab(std::string_view name) const {
    return (name != "pools" || document_->tables->pools.size() > 1) &&
           (name != "holders" || panes_->verdicts.knows_holders()) &&
           (name != "devices" || document_->heaps.size() > 1) && (name != "tags" || panes_->verdicts.knows_tags()) &&
           (name != "heaps" || document_->heaps.size() > 1) && (name != "ranks" || ranks_ != nullptr) &&
           (name != "prediction" || prediction_ != nullptr);
  }

  /// Draws a frame.
  void draw();
  /// Whether the timeline shows events, or there are none.
  bool shows_events() const { return panes_->timeline.shows_events() || document_->complete; }
  /// Whether everything is read and every pane is up to date.
  bool is_idle() const;
  bool wants_to_quit() const { return quit_; }
  const Theme& theme() const { return theme_; }
  const Settings& settings() const { return settings_; }
  Selection& selection() { return selection_; }
  const Document& document() const { return *document_; }
  SourceStatus status() const;  // of the file that is shown

  /// The selection and the positions of everything on screen, for tests.
  nlohmann::json state();
  /// All commands, with the reasons why some can't be run now.
  nlohmann::json commands();

 private:
  /// Replaces what is shown without waiting.
  void show(std::unique_ptr<Source> source, bool is_sample);
  void open_decider();
  void tell_missing_ranks();
  /// Whether the answer about the job fills the window.
  bool shows_job() const { return ranks_ && layout_.maximised() == "ranks"; }
  void follow_opening();
  void remember(const std::filesystem::path& file);
  void complain(const Error& error);
  void draw_notice(Scene& scene);
  /// Whether there was a notice, or a file being opened, which is given up.
  bool dismiss_notice();
  void follow_document();
  void forget_document();
  void renumber(const Document& next);
  void update_sieve();
  void update_heap();
  void update_judged(double now);
  void update_axis();
  void update_classification();
  void handle_keys(double seconds);
  bool move_focus(const KeyPress& press);
  void remember_view(double now);
  void switch_colours();
  bool knows_categories() const { return live_known_ && live_known_->knows_any; }
  void make_commands();
  void make_zoom_commands();
  void make_search_commands();
  void make_goto_commands();
  void make_tab_commands();
  void make_job_commands();
  void make_colour_commands();
  void make_verdict_commands();
  void make_axis_commands();
  void make_control_commands();
  void make_size_commands();
  void make_text_commands();
  void make_file_commands();
  std::vector<Command> passing_commands();
  std::string why_no_control(std::string_view tab, std::string_view place);
  bool is_on_screen(std::string_view place) const;
  void act_on(std::string_view tab, std::string_view place);
  void draw_top_bar(Scene& scene);
  void draw_rank_list(Scene& scene);
  void end_top_bar(Scene& scene);
  void draw_job_bar(Scene& scene);
  /// The name of the rank whose file is open.
  std::string shown_rank() const;
  void draw_job(Scene& scene);
  void choose(const RankChoice& choice);
  void draw_search(Scene& scene);
  void draw_unknowns(Scene& scene);
  void follow(const VerdictAction& action);
  void draw_named(Scene& scene, std::string_view name);
  PaneContents contents(Scene& scene);
  /// Opens the file dialog in the folder of the open file.
  void begin_to_open();
  void begin(const StartChoice& choice);

  Window& window_;
  Settings settings_;
  Bytes memory_limit_;
  Theme theme_;
  /// A file on its way.
  struct Opening {
    std::unique_ptr<Source> source;
    bool is_sample = false;
  };
  std::unique_ptr<Source> source_;
  bool is_sample_ = false;
  bool is_remembered_ = false;  // among the recent files, in the title of the window
  std::optional<Opening> opening_;
  std::string notice_;                               // why another file was not opened, or which ranks are missing
  std::unique_ptr<const Ranks> ranks_;               // null: a single file is open
  std::unique_ptr<const PredictionJob> prediction_;  // null: none was requested
  RanksPane ranks_pane_;
  std::string job_name_;                // "job run7, 64 recordings"
  bool wants_decider_ = false;          // as soon as it is known
  std::unique_ptr<const Ranks> alone_;  // the only recording of a folder, until it is known whether ranks are missing
  RankChoice choice_;                   // applied in the next frame: this frame's scene uses the file
  std::shared_ptr<const Document> document_ = std::make_shared<const Document>();
  Selection selection_;
  AxisBy axis_ = AxisBy::time;               // as chosen
  bool steps_asked_ = false;                 // steps were, by name: if there are none, that is said
  std::shared_ptr<const Document> axis_of_;  // the document whose events it counts
  TimeRange followed_view_;              // the whole trace as it was; while that is the view, it grows with the trace
  HeapId followed_heap_ = HeapId::none;  // the default heap before the user chose one
  bool cursor_follows_ = true;           // the user has not set the cursor yet
  bool paused_ = false;
  StartChoice chosen_;                  // applied in the next frame: this frame's scene uses the file
  bool close_wanted_ = false;           // applied in the next frame: this frame's scene uses the file
  std::uint32_t grown_to_ = 0;          // events of the document when it last grew,
  double grown_at_ = 0;                 // in seconds
  std::uint32_t judged_events_ = 0;     // of the judged version; later ones are judged when that is worth the time
  std::shared_ptr<WholeTrace> judged_;  // its trace; null until it is read
  TimeRange settled_view_;              // the view once it stopped moving
  TimeRange last_view_;                 // of the previous frame
  double view_moved_ = 0;               // time of the last move, in seconds
  std::optional<std::string> wanted_instant_;
  HeapAt heap_;
  LiveByCategory live_{};                             // in heap_
  std::shared_ptr<const Classification> live_known_;  // the classification behind live_
  std::shared_ptr<const Sieve> live_sieve_;
  std::shared_ptr<const Sieve> sieve_;  // the filter of lists and pictures; null: none
  bool sieving_ = false;                // a new one is being computed
  std::uint32_t heap_version_ = 0;
  std::shared_ptr<const Rounding> heap_rounding_;  // the rounding used for heap_
  std::vector<Overlay> overlays_;
  std::map<std::string, ImVec4> places_;
  bool busy_ = true;
  std::uint64_t frames_ = 0;
  Layout layout_;
  Tour tour_;
  bool quit_ = false, focus_search_ = false;
  int match_step_ = 0;  // to the next (1) or previous (-1) match of the search
  double last_frame_ = 0;
  Commands commands_;
  Focus focus_;
  OpenDialog open_dialog_;

  std::unique_ptr<Panes> panes_ = std::make_unique<Panes>();
};

}  // namespace memreel::viewer
