// SPDX-License-Identifier: Apache-2.0
// The panes that show something over time, or over a run's size.
#pragma once

#include <array>
#include <filesystem>
#include <memory>
#include <set>
#include <span>

#include "analyzer/replay/replay.h"
#include "viewer/model/axis.h"
#include "viewer/model/background.h"
#include "viewer/model/device_samples.h"
#include "viewer/model/findings.h"
#include "viewer/model/mark_bands.h"
#include "viewer/model/prediction.h"
#include "viewer/model/ranks.h"
#include "viewer/model/stacked_series.h"
#include "viewer/panes/draw.h"
#include "viewer/panes/table.h"
#include "viewer/panes/verdicts.h"

namespace memreel::viewer {

// Reserved, held and live bytes over time; fragmentation and the device's free memory, each on an axis of its own;
// marks; other policies' reserved bytes; the minimap.

inline constexpr double lane_height = 32;  // units of length
Colour fragmentation_colour(const Theme& theme);
Colour free_colour(const Theme& theme);
/// For live bytes from a flight recorder's sums.
inline Colour folded_colour(const Theme& theme) { return mix(theme.live, theme.panel, 0.72); }
/// A framework's samples report what is left of its limit.
const char* free_name(const Tables& tables, const HeapSeries& sampled);

class TimelinePane {
 public:
  void draw(Scene& scene);
  /// Whether any events are on screen.
  bool shows_events() const { return !plot_.contents->series.empty(); }
  /// The split of live bytes on screen, for tests; null until there is one.
  const StackedSeries* shown_groups() const { return ordered_of_.get(); }
  std::span<const MarkBand> shown_bands() const { return bands_; }
  /// The number of calls of empty_cache that the pointer is on, for tests.
  std::uint32_t emptied_told() const { return emptied_told_; }
  const std::string& told_band() const { return told_band_; }
  /// Of the overlays at the cursor or the pointer, for tests.
  std::span<const std::string> overlay_values() const { return overlay_values_; }
  bool folded_is_told() const { return folded_is_told_; }

 private:
  /// The key of the columns on screen.
  struct Key {
    HeapId heap = HeapId::none;
    TimeRange view;
    AxisScale axis;
    std::uint32_t width = 0, version = 0;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct Contents {
    std::vector<SeriesColumn> series;
    std::vector<FreeColumn> free;           // empty without samples of the device
    std::vector<FreeColumn> fragmentation;  // in millionths
    std::uint64_t highest = 0;              // of `series`
  };
  /// Columns of pixels; with many events in view they are computed in the background, and the previous ones are shown
  /// in their place until then.
  struct Columns {
    Key key;
    std::shared_ptr<const Contents> contents = std::make_shared<const Contents>();
    Background<Key, Contents> next;
    double left = 0, step = 1;  // position of the first one on screen, and the width of each

    float x_of(std::size_t column) const { return static_cast<float>(left + step * static_cast<double>(column)); }
  };

  /// What the columns of a series look like.
  struct Look {
    std::shared_ptr<const Contents> contents;
    std::shared_ptr<const StackedSeries> groups;  // null: not split
    double left = 0, step = 1;
    Area area;
    std::uint64_t top = 0;
    float scale = 1;
    std::optional<Category> lit;
    bool has_pending = false, dark = true;
    friend bool operator==(const Look&, const Look&) = default;
  };

  /// The key of a flight recorder's sums.
  struct FoldedKey {
    std::size_t sums = 0;
    Nanoseconds begin{}, until{};
    HeapId heap = HeapId::none;
    friend bool operator==(const FoldedKey&, const FoldedKey&) = default;
  };

  void draw_legend(Scene& scene);
  /// Requests the split of live bytes; returns it once it is ready for the current key.
  std::shared_ptr<const StackedSeries> request_groups(Scene& scene);
  void draw_group_names(Scene& scene, std::uint32_t events);
  const LiveByCategory& live_at(const Scene& scene, std::uint32_t events);
  void draw_values(Scene& scene, const HeapSeries& series, std::uint32_t events);
  void draw_lanes(Scene& scene, std::size_t lanes);
  void draw_plot(Scene& scene);
  void draw_columns(Scene& scene, ImDrawList& list, const Area& area, std::uint64_t top);
  void draw_groups(Scene& scene, ImDrawList& list, const Look& look) const;
  void draw_overlays(Scene& scene, ImDrawList& list, const TimeAxis& axis, const Area& area, std::uint64_t top);
  static float marks_height(const Scene& scene);
  void draw_marks(Scene& scene);
  void draw_emptied(Scene& scene, ImDrawList& list, const TimeAxis& axis, const Area& area);
  void draw_bands(Scene& scene, ImDrawList& list, const TimeAxis& axis, const Area& area);
  void draw_instant_marks(Scene& scene, ImDrawList& list, const TimeAxis& axis, const Area& area);
  void draw_failures(Scene& scene, ImDrawList& list, const TimeAxis& axis, const Area& area);
  static void draw_limit(Scene& scene, ImDrawList& list, const Area& area, std::uint64_t top);
  void draw_minimap(Scene& scene);
  /// Empty if nothing was summed up, or until known.
  const std::vector<FoldedPoint>& folded_series_of(Scene& scene);
  void draw_folded_series(Scene& scene, ImDrawList& list, const TimeAxis& axis, const Area& area, std::uint64_t top);
  /// Marks where single events begin.
  void draw_folded_end(Scene& scene, ImDrawList& list, const TimeAxis& axis, const Area& area);
  static std::optional<Contents> make(const Document& document, const Key& key);
  static void update(Columns& kept, Scene& scene, TimeRange view, const Area& area);

  Columns plot_, minimap_;
  KeptRectangles<Look> plot_columns_, minimap_columns_;
  std::array<KeptRectangles<Look>, 2> lane_columns_;
  std::vector<MarkBand> bands_;  // as drawn last
  std::vector<std::string> overlay_values_;
  std::string told_band_;           // the tooltip of the band pointed at; empty: none
  std::uint32_t emptied_told_ = 0;  // calls of empty_cache that the pointer is on
  bool flag_clicked_ = false;       // in this frame
  bool folded_is_told_ = false;     // in this frame: the tooltip is on screen
  Background<FoldedKey, std::vector<FoldedPoint>> folded_;
  Background<SplitQuery, StackedSeries> groups_;
  std::shared_ptr<const StackedSeries> ordered_of_;
  std::vector<std::size_t> legend_order_;  // of its groups
  /// The last legend values for an instant other than the cursor.
  LiveByCategory live_{};
  std::uint32_t live_after_ = never;
  HeapId live_heap_ = HeapId::none;
  std::shared_ptr<const Classification> live_known_;
  std::shared_ptr<const Sieve> live_sieve_;
};

// The heaps of all devices under each other, on the timeline's axis.

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

// The answer about a job, and its ranks over one clock.

/// The user's click: a rank to show, or one to compare with the shown one.
struct RankChoice {
  std::optional<std::size_t> show, compare;  // indices into Ranks::files()
};

class RanksPane {
 public:
  /// `shown`: the file that is open; empty: none.
  RankChoice draw(Scene& scene, const Ranks& ranks, const std::filesystem::path& shown);

 private:
  /// What all lines of a job have in common in a frame.
  struct Chart {
    const Ranks* ranks = nullptr;
    const std::filesystem::path* shown = nullptr;
    Bytes top;
    bool one_clock = false;
    Nanoseconds begin{}, end{};
  };

  void draw_progress(Scene& scene, const Ranks& ranks, const std::filesystem::path& shown);
  void draw_job(Scene& scene, const Ranks& ranks, const JobOverview& job, const std::filesystem::path& shown);
  void draw_clock(Scene& scene, const JobOverview& job, const Chart& chart);
  void draw_line(Scene& scene, const Chart& chart, const RankLine& line);
  void draw_others(Scene& scene, const Chart& chart, const RankLine& line);
  void draw_text(Scene& scene, const Area& area, const RankLine& line, bool is_shown, float room);
  void draw_lane(Scene& scene, const Area& area, const Chart& chart, const RankLine& line, bool is_shown,
                 bool is_hovered);
  void tell(Scene& scene, const Area& area, const Chart& chart, const RankLine& line) const;

  std::set<std::size_t> unfolded_;  // first files of lines that list their ranks
  RankChoice choice_;               // in this frame
};

// Replays other allocators: what they would have reserved, overlaid on the timeline.

class PoliciesPane {
 public:
  PoliciesPane();
  /// Runs the requested replays; to be called in every frame, whether the pane is on screen or not.
  void update(Scene& scene);
  void draw(Scene& scene);
  /// Requests a replay, like its button.
  void run();
  /// Adds a policy to the list, replays the list, and overlays the policy's curve on the timeline.
  void overlay(const std::string& policy);

 private:
  struct Outcome {
    std::vector<ReplayResult> results;
    std::string problem;  // empty: none
  };

  void request(Scene& scene);
  void show_overlays(Scene& scene);

  Table table_;
  std::string specs_ = "torch.native,torch.expandable,cuda.malloc,fit.best,bound.live";
  std::string wanted_;
  std::string problem_;  // with the last request; the table shows the previous result
  Background<std::string, Outcome> replay_;
  std::shared_ptr<const Outcome> seen_;   // the latest
  std::shared_ptr<const Outcome> shown_;  // the latest without a problem
  std::vector<bool> overlaid_;
  std::string overlay_when_done_;  // a policy
};

// Recordings at several sizes together: predictions over a program's parameter.

/// `view`: null until it is ready.
void draw_prediction(Scene& scene, const PredictionView* view);

// The tree of each device's heaps, and the program's own tags: tables of what the analysis found.

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
