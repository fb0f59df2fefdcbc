// Reserved, held and live bytes over time; fragmentation and the device's free memory, each on an axis of its own;
// marks; what other policies would have reserved; all of time in small.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "viewer/model/background.h"
#include "viewer/model/device_memory.h"
#include "viewer/model/folded_series.h"
#include "viewer/model/mark_bands.h"
#include "viewer/model/series_columns.h"
#include "viewer/model/stacked_series.h"
#include "viewer/panes/draw.h"

namespace memreel::viewer {

inline constexpr double lane_height = 32;  // units of length
Colour fragmentation_colour(const Theme& theme);
Colour free_colour(const Theme& theme);
/// Of what was live by the sums of a flight recorder.
inline Colour folded_colour(const Theme& theme) { return mix(theme.live, theme.panel, 0.72); }
/// A framework's samples say what is left of the limit that it was given.
const char* free_name(const Tables& tables, const HeapSeries& sampled);

class TimelinePane {
 public:
  void draw(Scene& scene);
  /// Whether events are on screen.
  bool shows_events() const { return !plot_.contents->series.empty(); }
  /// What live bytes are split into on screen, for tests; null before that.
  const StackedSeries* shown_groups() const { return ordered_of_.get(); }
  std::span<const MarkBand> shown_bands() const { return bands_; }
  const std::string& told_band() const { return told_band_; }
  bool folded_is_told() const { return folded_is_told_; }

 private:
  /// What the columns on screen were made for.
  struct Key {
    HeapId heap = HeapId::none;
    TimeRange view;
    AxisScale axis;
    std::uint32_t width = 0, version = 0;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct Contents {
    std::vector<SeriesColumn> series;
    std::vector<FreeColumn> free;  // empty without samples of the device
  };
  /// Columns of pixels; when many events are in view they are made beside the window, and the last ones are shown where
  /// they belong until they are there.
  struct Columns {
    Key key;
    std::shared_ptr<const Contents> contents = std::make_shared<const Contents>();
    Background<Key, Contents> next;
    double left = 0, step = 1;  // where the first one is on screen, and how wide each is

    float x_of(std::size_t column) const { return static_cast<float>(left + step * static_cast<double>(column)); }
  };

  /// What the sums of a flight recorder are of.
  struct FoldedKey {
    std::shared_ptr<const FoldedHistory> sums;
    HeapId heap = HeapId::none;
    friend bool operator==(const FoldedKey&, const FoldedKey&) = default;
  };

  void draw_legend(Scene& scene);
  /// How live bytes are split, once that is known for what is asked; it is asked for.
  std::shared_ptr<const StackedSeries> request_groups(Scene& scene);
  void draw_group_names(Scene& scene, std::uint32_t events);
  const LiveByCategory& live_at(const Scene& scene, std::uint32_t events);
  void draw_values(Scene& scene, const HeapSeries& series, std::uint32_t events);
  void draw_lanes(Scene& scene, std::size_t lanes);
  void draw_plot(Scene& scene);
  /// False while there are none.
  bool draw_groups(Scene& scene, ImDrawList& list, const Area& area, std::uint64_t top);
  void draw_overlays(Scene& scene, ImDrawList& list, const TimeAxis& axis, const Area& area, std::uint64_t top);
  static float marks_height(const Scene& scene);
  void draw_marks(Scene& scene);
  void draw_bands(Scene& scene, ImDrawList& list, const TimeAxis& axis, const Area& area);
  void draw_instant_marks(Scene& scene, ImDrawList& list, const TimeAxis& axis, const Area& area);
  void draw_failures(Scene& scene, ImDrawList& list, const TimeAxis& axis, const Area& area);
  static void draw_limit(Scene& scene, ImDrawList& list, const Area& area, std::uint64_t top);
  void draw_minimap(Scene& scene);
  /// Empty where nothing was summed up, or before that is known.
  const std::vector<FoldedPoint>& folded_series_of(Scene& scene);
  void draw_folded_series(Scene& scene, ImDrawList& list, const TimeAxis& axis, const Area& area, std::uint64_t top);
  /// Where single events begin, and that there are none before.
  void draw_folded_end(Scene& scene, ImDrawList& list, const TimeAxis& axis, const Area& area);
  static std::optional<Contents> make(const Document& document, const Key& key);
  static void update(Columns& kept, Scene& scene, TimeRange view, const Area& area);

  Columns plot_, minimap_;
  std::vector<MarkBand> bands_;  // as they were drawn last
  std::string told_band_;        // what the tooltip says of one; empty: none is pointed at
  bool flag_clicked_ = false;    // in this frame
  bool folded_is_told_ = false;  // likewise: the tooltip is on screen
  Background<FoldedKey, std::vector<FoldedPoint>> folded_;
  Background<SplitQuery, StackedSeries> groups_;
  std::shared_ptr<const StackedSeries> ordered_of_;
  std::vector<std::size_t> legend_order_;  // of its groups
  /// What the legend said last of an instant that is not the cursor's.
  LiveByCategory live_{};
  std::uint32_t live_after_ = never;
  HeapId live_heap_ = HeapId::none;
  std::shared_ptr<const Classification> live_known_;
  std::shared_ptr<const Sieve> live_sieve_;
};

}  // namespace memreel::viewer
