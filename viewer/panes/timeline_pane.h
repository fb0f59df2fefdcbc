// SPDX-License-Identifier: Apache-2.0
// Reserved, held and live bytes over time; fragmentation and the device's free memory, each on an axis of its own;
// marks; other policies' reserved bytes; the minimap.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "viewer/model/background.h"
#include "viewer/model/device_memory.h"
#include "viewer/model/heap_series.h"
#include "viewer/model/mark_bands.h"
#include "viewer/model/stacked_series.h"
#include "viewer/panes/draw.h"

namespace memreel::viewer {

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
    std::shared_ptr<const FoldedHistory> sums;
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

}  // namespace memreel::viewer
