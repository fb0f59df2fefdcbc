// SPDX-License-Identifier: Apache-2.0
#include "viewer/panes/time_panes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "formats/model/quantity.h"
#include "viewer/model/findings.h"
#include "viewer/model/labels.h"
#include "viewer/panes/draw.h"
#include "viewer/panes/widgets.h"

namespace memreel::viewer {
namespace {

constexpr std::array<const char*, split_words.size()> split_names{
    "reserved, live", "by category", "by phase", "by stack", "by pool", "by stream", "by thread", "by tag", "by step"};

constexpr double millionths = 1e6;  // Metric::fragmentation

/// The heap's capacity: from the device, else from failed requests.
struct Limit {
  Bytes bytes;
  bool is_bound = false;  // it may have been less
};

std::optional<Limit> limit_of(const Scene& scene) {
  if (scene.findings)
    for (const OutOfMemory& oom : scene.findings->ooms.examined)
      if (oom.heap == scene.selection.heap && oom.capacity)
        return Limit{.bytes = *oom.capacity, .is_bound = oom.least_capacity < *oom.capacity};
  const auto sampled = sampled_limit(scene.doc(), scene.selection.heap);
  return sampled ? std::optional(Limit{.bytes = *sampled}) : std::nullopt;
}

}  // namespace

std::optional<TimelinePane::Contents> TimelinePane::make(const Document& document, const Key& key) {
  const HeapSeries* const series = document.series(key.heap);
  if (series == nullptr) return std::nullopt;
  const std::vector<Nanoseconds> edges = key.axis.edges(key.view.begin, key.view.end, key.width);
  Contents contents{.series = series_columns(document, *series, edges), .free = {}, .fragmentation = {}};
  contents.highest = highest(contents.series);
  if (series->has_segments)
    for (const SeriesColumn& column : contents.series)
      contents.fragmentation.push_back({.least = value_of(column.extent.min, Metric::fragmentation),
                                        .most = value_of(column.extent.max, Metric::fragmentation),
                                        .known = true});
  if (const HeapSeries* const sampled = sampled_series(document, key.heap))
    contents.free = free_columns(document, *sampled, edges);
  return contents;
}

void TimelinePane::update(Columns& kept, Scene& scene, TimeRange view, const Area& area) {
  constexpr std::uint32_t quickly = 4096;  // events that take a fraction of a frame to visit
  const Key key{scene.selection.heap, view, scene.selection.axis,
                static_cast<std::uint32_t>(std::max(area.width(), 1.0F)), scene.doc().event_count()};
  if (scene.series() == nullptr) return;
  if (!(key == kept.key)) {
    // The first result is worth waiting for within the frame, because there is nothing else to show.
    if (kept.contents->series.empty() || key.axis.by() != kept.key.axis.by() ||
        scene.doc().events_until(view.end) - scene.doc().events_until(view.begin) <= quickly) {
      kept.contents = std::make_shared<const Contents>(make(scene.doc(), key).value_or(Contents{}));
      kept.key = key;
    } else {
      kept.next.request(
          key, [document = scene.document, key](const Progress&) { return make(*document, key); }, false);
      if (kept.next.value() && kept.next.key()->heap == key.heap) {
        kept.contents = kept.next.value();
        kept.key = *kept.next.key();
      }
      if (!(key == kept.key)) scene.busy = true;
    }
  }
  const TimeAxis axis(view, area, scene.selection.axis);
  kept.left = axis.exact_x_of(kept.key.view.begin);
  kept.step = kept.key.width == 0 ? 1 : (axis.exact_x_of(kept.key.view.end) - kept.left) / kept.key.width;
}

void TimelinePane::draw(Scene& scene) {
  const float marks = marks_height(scene), lane = scene.px(lane_height), least_plot = scene.px(60);
  draw_legend(scene);
  // In a low pane the plot is worth more than the minimap.
  const float height = ImGui::GetContentRegionAvail().y - marks;
  const float minimap = height - scene.px(34) < scene.px(40) ? 0 : scene.px(34), rest = height - minimap;
  std::size_t lanes = 0;
  if (const HeapSeries* const series = scene.series()) {
    lanes += series->has_segments ? 1U : 0U;
    lanes += sampled_series(scene.doc(), series->heap) != nullptr ? 1U : 0U;
  }
  while (lanes > 0 && rest - static_cast<float>(lanes) * lane < least_plot) --lanes;
  ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, {0, 0});
  ImGui::BeginChild("plot", {0, std::max(rest - static_cast<float>(lanes) * lane, scene.px(20))});
  draw_plot(scene);
  ImGui::EndChild();
  if (lanes != 0) draw_lanes(scene, lanes);
  ImGui::BeginChild("marks", {0, marks});
  draw_marks(scene);
  ImGui::EndChild();
  if (minimap > 0) {
    ImGui::BeginChild("minimap", {0, 0});
    draw_minimap(scene);
    ImGui::EndChild();
  }
  ImGui::PopStyleVar();
}

void TimelinePane::draw_legend(Scene& scene) {
  Selection& selection = scene.selection;
  const Document& document = scene.doc();
  ImGui::SetNextItemWidth(scene.px(142));
  if (ImGui::BeginCombo("##split", split_names.at(static_cast<std::size_t>(scene.split())),
                        ImGuiComboFlags_HeightLarge)) {
    for (std::size_t i = 0; i < split_names.size(); ++i) {
      const auto by = static_cast<SplitBy>(i);
      if ((by == SplitBy::category || by == SplitBy::phase) && !scene.has_categories()) continue;
      if (menu_entry(scene, split_names.at(i), scene.split() == by, std::string("split/") + split_names.at(i)))
        selection.split = by;
    }
    ImGui::EndCombo();
  }
  note_item(scene, "split");
  const HeapSeries* const series = scene.series();
  if (series == nullptr) return;
  const std::uint32_t events =
      selection.hovered_time ? document.events_until(*selection.hovered_time) : selection.cursor;
  const Nanoseconds at = selection.hovered_time.value_or(
      document.empty() ? Nanoseconds{} : document.time(std::max(1U, std::min(events, document.event_count())) - 1));
  const std::string when =
      time_text(at - document.first_time(), selection.view.length() / 2000) + "   " + event_text(events);
  const float when_width = ImGui::CalcTextSize(when.c_str()).x;
  ImGui::SameLine(0, 0);
  ImGui::BeginChild("values", {ImGui::GetContentRegionAvail().x - when_width - scene.px(16), ImGui::GetFrameHeight()},
                    false, ImGuiWindowFlags_NoScrollbar | ImGuiWindowFlags_NoScrollWithMouse);
  draw_values(scene, *series, events);
  ImGui::EndChild();
  ImGui::SameLine(ImGui::GetContentRegionMax().x - when_width);
  ImGui::AlignTextToFramePadding();
  ImGui::TextDisabled("%s", when.c_str());
}

void TimelinePane::draw_values(Scene& scene, const HeapSeries& series, std::uint32_t events) {
  const Selection& selection = scene.selection;
  const Document& document = scene.doc();
  const auto entry = [&](const char* name, Colour colour, const std::string& value) {
    legend_entry(scene, name, colour, value);
  };
  ImGui::Dummy({0, 0});
  const Metrics metrics = document.metrics_after(series, events);
  const std::uint64_t reserved = value_of(metrics, Metric::reserved), live = value_of(metrics, Metric::live);
  if (series.has_segments) entry("reserved", scene.theme.reserved, text_of(Bytes{reserved}));
  if (scene.split() == SplitBy::nothing) {
    entry("live", scene.theme.live, text_of(Bytes{live}));
    if (series.has_pending) entry("pending", scene.theme.held, text_of(Bytes{value_of(metrics, Metric::held) - live}));
  }
  const Nanoseconds at = selection.hovered_time.value_or(document.time(std::max(1U, events) - 1));
  if (const auto summed = folded_live(folded_series_of(scene), at))
    entry("live, summed up", folded_colour(scene.theme), text_of(*summed));
  overlay_values_.clear();
  for (std::size_t i = 0; i < scene.overlays.size(); ++i)
    if (const Overlay& overlay = scene.overlays[i]; overlay.heap == selection.heap) {
      const auto next = std::ranges::upper_bound(overlay.events, std::max(1U, events) - 1) - overlay.events.begin();
      const Bytes reserved_by{next == 0 ? 0 : overlay.bytes[static_cast<std::size_t>(next) - 1]};
      const std::string value = text_of(reserved_by);
      if (legend_entry(scene, overlay.name.c_str(), scene.theme.overlay(i), value)) overlay_values_.push_back(value);
    }
  if (scene.split() != SplitBy::nothing) draw_group_names(scene, events);
  if (series.has_segments)
    entry("fragmentation", fragmentation_colour(scene.theme),
          text_of_share(static_cast<double>(value_of(metrics, Metric::fragmentation)) / millionths));
  if (const HeapSeries* const sampled = sampled_series(document, series.heap)) {
    const auto sample = sample_before(document, *sampled, events);
    entry(free_name(scene.tables(), *sampled), free_colour(scene.theme),
          sample ? text_of(sample->free) : "not known yet");
  }
}

void TimelinePane::draw_overlays(Scene& scene, ImDrawList& list, const TimeAxis& axis, const Area& area,
                                 std::uint64_t top) {
  for (std::size_t i = 0; i < scene.overlays.size(); ++i) {
    const Overlay& overlay = scene.overlays[i];
    if (overlay.heap != scene.selection.heap) continue;
    std::vector<ImVec2> points;
    for (std::size_t p = 0; p < overlay.events.size(); ++p) {
      if (overlay.events[p] >= scene.doc().event_count()) break;
      const float x = axis.x_of(scene.doc().time(overlay.events[p]));
      if (!points.empty()) points.emplace_back(x, points.back().y);
      points.emplace_back(x, y_of(area, overlay.bytes[p], top));
    }
    if (!points.empty()) points.emplace_back(area.right, points.back().y);
    list.AddPolyline(points.data(), static_cast<int>(points.size()), scene.theme.overlay(i), 0, scene.px(1.6));
  }
}

void TimelinePane::draw_plot(Scene& scene) {
  const Area area = take_area("timeline");
  note_place(scene, "timeline", area);
  ImDrawList& list = *ImGui::GetWindowDrawList();
  if (scene.series() == nullptr || scene.doc().empty()) {
    explain(scene, area, scene.doc().complete ? "This trace has no memory events." : "Reading\u2026");
    return;
  }
  const TimeAxis axis(scene.selection.view, area, scene.selection.axis);
  update(plot_, scene, scene.selection.view, area);
  std::uint64_t top = plot_.contents->highest;
  for (const Overlay& overlay : scene.overlays)
    if (overlay.heap == scene.selection.heap)
      for (const std::uint64_t bytes : overlay.bytes) top = std::max(top, bytes);
  for (const FoldedPoint& point : folded_series_of(scene))
    if (point.time >= scene.selection.view.begin) top = std::max(top, point.live.count);
  // The limit is shown only if it is near the data.
  if (const auto limit = limit_of(scene); limit && limit->bytes.count <= top + top / 2)
    top = std::max(top, limit->bytes.count);
  const int most_ticks = std::clamp(static_cast<int>(area.height() / scene.px(24)), 1, 5);
  const std::uint64_t step = byte_tick(std::max<std::uint64_t>(top, 1), most_ticks);
  top += top / 12;

  list.PushClipRect(area.min(), area.max(), true);
  draw_folded_series(scene, list, axis, area, top);
  draw_columns(scene, list, area, top);
  for (std::uint64_t tick = step; tick <= top; tick += step) {
    const float y = std::floor(y_of(area, tick, top));
    fill(list, {area.left, y, area.right, y + 1}, with_alpha(scene.theme.text, 0x16));
    label(scene, list, {area.left + scene.px(6), y + scene.px(2)}, tick_text(tick));
  }
  draw_limit(scene, list, area, top);
  draw_overlays(scene, list, axis, area, top);
  draw_folded_end(scene, list, axis, area);
  draw_instants(scene, list, axis, area);
  draw_handles(scene, list, axis, area);
  if (scene.selection.marked) {
    const TimeRange marked = *scene.selection.marked;
    const auto live = [&](Nanoseconds at) {
      return static_cast<std::int64_t>(
          value_of(scene.doc().metrics_after(*scene.series(), scene.doc().events_until(at)), Metric::live));
    };
    const std::int64_t change = live(marked.end) - live(marked.begin);
    const std::string label = time_text(marked.length(), marked.length() / 1000) + "   live " + text_of_growth(change);
    text(list, {(axis.x_of(marked.begin) + axis.x_of(marked.end)) / 2, area.top + scene.px(4)}, scene.theme.text, label,
         0.5F);
  }
  list.PopClipRect();
  navigate(scene, axis, area);
}

void TimelinePane::draw_limit(Scene& scene, ImDrawList& list, const Area& area, std::uint64_t top) {
  const auto limit = limit_of(scene);
  if (!limit) return;
  const bool within = limit->bytes.count <= top;
  const float y = within ? std::floor(y_of(area, limit->bytes.count, top)) : area.top;
  if (within)
    for (float x = area.left; x < area.right; x += scene.px(9))
      fill(list, {x, y, x + scene.px(5), y + scene.px(1.5)}, scene.theme.alarm);
  const std::string what =
      (limit->is_bound ? "limit at most " : "limit ") + text_of(limit->bytes) + (within ? "" : " \u2191");
  const float left = area.right - ImGui::CalcTextSize(what.c_str()).x - scene.px(8);
  label(scene, list, {left, y + scene.px(3)}, what);
  note_place(scene, "limit", {left, y, area.right, y + scene.px(3) + ImGui::GetTextLineHeight()});
}

void TimelinePane::draw_minimap(Scene& scene) {
  const Area area = take_area("minimap");
  note_place(scene, "minimap", area);
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const Document& document = scene.doc();
  fill(list, area, scene.theme.ground);
  if (document.empty() || scene.series() == nullptr) return;
  const TimeRange all{document.first_time(), document.last_time() + Nanoseconds{1}};
  update(minimap_, scene, all, area);
  const std::vector<SeriesColumn>& columns = minimap_.contents->series;
  std::uint64_t top = std::max<std::uint64_t>(minimap_.contents->highest, 1);
  for (const FoldedPoint& point : folded_series_of(scene)) top = std::max(top, point.live.count);
  const auto x_of = [&](std::size_t x) { return minimap_.x_of(x); };
  const auto up_to = [&](Metric metric) {
    return [&, metric](std::size_t x) {
      return std::pair{y_of(area, value_of(columns[x].extent.max, metric), top), area.bottom};
    };
  };
  const TimeAxis axis(all, area, scene.selection.axis);
  draw_folded_series(scene, list, axis, area, top);
  const Look look{.contents = minimap_.contents,
                  .groups = nullptr,
                  .left = minimap_.left,
                  .step = minimap_.step,
                  .area = area,
                  .top = top,
                  .scale = scene.scale,
                  .lit = {},
                  .dark = scene.theme.dark};
  minimap_columns_.draw(list, look, [&] {
    fill_columns(list, columns.size(), x_of, scene.theme.reserved, up_to(Metric::reserved));
    fill_columns(list, columns.size(), x_of, with_alpha(scene.theme.live, 0xC0), up_to(Metric::live));
  });
  const float left = axis.x_of(scene.selection.view.begin),
              right = std::max(axis.x_of(scene.selection.view.end), left + 2);
  fill(list, {area.left, area.top, left, area.bottom}, with_alpha(scene.theme.ground, 0xB0));
  fill(list, {right, area.top, area.right, area.bottom}, with_alpha(scene.theme.ground, 0xB0));
  outline(list, {left, area.top, right, area.bottom}, scene.theme.accent, scene.px(1));
  if (ImGui::IsItemActive() && ImGui::IsMouseDown(ImGuiMouseButton_Left)) {
    const Nanoseconds half = scene.selection.view.length() / 2, at = axis.time_at(ImGui::GetIO().MousePos.x);
    scene.selection.look_at(document, {at - half, at + half});
  }
}

// Live bytes in the timeline, split by category or by holder.

namespace {

Colour group_colour(const Theme& theme, SplitBy by, const StackedSeries& groups, std::size_t g) {
  const StackedSeries::Group& group = groups.groups[g];
  if (group.is_rest) return theme.rest();
  if (by == SplitBy::category) return theme.category(static_cast<Category>(group.key));
  return by == SplitBy::stack ? theme.shade(group.key) : theme.hue(g);
}

/// Holds what does not fit in the legend.
void tell_categories(Scene& scene, const LiveByCategory& live) {
  ImGui::BeginTooltip();
  draw_categories(scene, live);
  ImGui::TextDisabled("click: show only this category, in all panes");
  ImGui::EndTooltip();
}

}  // namespace

std::shared_ptr<const StackedSeries> TimelinePane::request_groups(Scene& scene) {
  const SplitBy by = scene.split();
  const bool by_purpose = by == SplitBy::category || by == SplitBy::phase;
  const SplitQuery query{.heap = scene.selection.heap,
                         .by = by,
                         .version = scene.doc().event_count(),
                         .classified = by_purpose ? scene.classified() : 0,
                         .sieve = scene.sieve_but_category()};
  groups_.request(
      query,
      [document = scene.document, known = scene.classification, query](const Progress& progress) {
        return split_series(*document, query, progress, known.get());
      },
      false);
  if (!groups_.is_current()) scene.busy = true;
  auto groups = groups_.value();
  if (!groups || groups_.key()->by != query.by || groups_.key()->heap != query.heap) return nullptr;
  if (groups != ordered_of_) {
    // By each group's maximum, so that the order stays while the cursor moves.
    const auto most = [&](std::size_t g) {
      const std::vector<std::uint64_t>& bytes = groups->groups[g].bytes;
      return bytes.empty() ? 0 : *std::ranges::max_element(bytes);
    };
    legend_order_.resize(groups->groups.size());
    std::iota(legend_order_.begin(), legend_order_.end(), std::size_t{0});
    if (by == SplitBy::category) std::ranges::stable_sort(legend_order_, std::ranges::greater{}, most);
    ordered_of_ = groups;
  }
  return groups;
}

const LiveByCategory& TimelinePane::live_at(const Scene& scene, std::uint32_t events) {
  if (events == scene.heap.event && scene.heap.heap == scene.selection.heap) return scene.live;
  const auto sieve = scene.sieve_but_category();
  if (events != live_after_ || scene.selection.heap != live_heap_ || scene.classification != live_known_ ||
      sieve != live_sieve_) {
    live_after_ = events;
    live_heap_ = scene.selection.heap;
    live_known_ = scene.classification;
    live_sieve_ = sieve;
    live_ = live_by_category(scene.doc(), *scene.classification, scene.selection.heap, events, sieve.get());
  }
  return live_;
}

void TimelinePane::draw_group_names(Scene& scene, std::uint32_t events) {
  Selection& selection = scene.selection;
  const SplitBy by = scene.split();
  const auto groups = request_groups(scene);
  if (!groups) return;
  const LiveByCategory* const live =
      by == SplitBy::category && scene.classification ? &live_at(scene, events) : nullptr;
  for (const std::size_t g : legend_order_) {
    const StackedSeries::Group& group = groups->groups[g];
    const Colour colour = group_colour(scene.theme, by, *groups, g);
    if (live != nullptr) {
      const auto category = static_cast<Category>(group.key);
      const std::string bytes = text_of(live->at(group.key).bytes);
      if (!legend_entry(scene, group.label.c_str(), colour, bytes)) break;
      const Area area = legend_area(scene, group.label, bytes);
      if (selection.category == category)
        fill(*ImGui::GetWindowDrawList(), {area.left, area.bottom, area.right, area.bottom + scene.px(2)}, colour);
      const std::string name = "timeline/" + std::string(name_of(category));
      note_place(scene, name, area);
      scene.focus.add(name, FocusKind::drawn, area.min(), area.max());
      if (scene.focus.has(name)) selection.hover(category);
      if (scene.focus.takes(name)) selection.toggle(category);
      if (!ImGui::IsWindowHovered() || !area.contains(ImGui::GetIO().MousePos)) continue;
      selection.hover(category);
      tell_categories(scene, *live);
      if (ImGui::IsMouseClicked(ImGuiMouseButton_Left)) selection.toggle(category);
      continue;
    }
    if (!legend_entry(scene, "", colour, fitting(group.label, scene.px(170)))) break;
    if (by != SplitBy::stack || group.is_rest) continue;
    const StackId stack{group.key};
    const Area area = legend_area(scene, fitting(group.label, scene.px(170)), "");
    const std::string name = "timeline/stack " + std::to_string(group.key);
    note_place(scene, name, area);
    scene.focus.add(name, FocusKind::drawn, area.min(), area.max());
    if (ImGui::IsItemHovered() || scene.focus.has(name)) selection.hover(stack);
    if (ImGui::IsItemClicked() || scene.focus.takes(name)) selection.select(stack);
  }
}

void TimelinePane::draw_columns(Scene& scene, ImDrawList& list, const Area& area, std::uint64_t top) {
  const bool splits = scene.split() != SplitBy::nothing;
  const Look look{.contents = plot_.contents,
                  .groups = splits ? request_groups(scene) : nullptr,
                  .left = plot_.left,
                  .step = plot_.step,
                  .area = area,
                  .top = top,
                  .scale = scene.scale,
                  .lit = scene.split() == SplitBy::category ? scene.selection.lit_category() : std::nullopt,
                  .has_pending = scene.series()->has_pending,
                  .dark = scene.theme.dark};
  plot_columns_.draw(list, look, [&] {
    if (look.groups != nullptr)
      draw_groups(scene, list, look);
    else
      draw_series(scene.theme, list, area, top, plot_.contents->series, look.has_pending,
                  [&](std::size_t x) { return plot_.x_of(x); });
  });
}

void TimelinePane::draw_groups(Scene& scene, ImDrawList& list, const Look& look) const {
  const std::vector<SeriesColumn>& columns = look.contents->series;
  const auto x_of = [&](std::size_t x) { return plot_.x_of(x); };
  fill_columns(list, columns.size(), x_of, scene.theme.reserved, [&](std::size_t x) {
    return std::pair{y_of(look.area, value_of(columns[x].extent.max, Metric::reserved), look.top), look.area.bottom};
  });
  const auto fullest = fullest_stretches(*look.groups, columns);
  std::vector<std::uint64_t> base(columns.size());
  for (std::size_t g = 0; g < look.groups->groups.size(); ++g) {
    const StackedSeries::Group& group = look.groups->groups[g];
    Colour colour = group_colour(scene.theme, scene.split(), *look.groups, g);
    if (look.lit && group.key != static_cast<std::uint32_t>(*look.lit)) colour = mix(colour, scene.theme.reserved, 0.8);
    const auto bytes = [&](std::size_t x) { return fullest[x] ? group.bytes[*fullest[x]] : 0; };
    fill_columns(list, columns.size(), x_of, colour, [&](std::size_t x) {
      return bytes(x) == 0
                 ? std::pair{look.area.bottom, look.area.bottom}
                 : std::pair{y_of(look.area, base[x] + bytes(x), look.top), y_of(look.area, base[x], look.top)};
    });
    for (std::size_t x = 0; x < columns.size(); ++x) base[x] += bytes(x);
  }
}

// The part of the timeline for which a flight recorder kept only sums.

namespace {

std::string folded_words(const Document& document) {
  return "\u2190 " + counted(document.trace->losses.folded_events, "event") + " summed up";
}

void tell_folded(const Document& document) {
  const double interval = std::chrono::duration<double>(document.trace->folded.interval).count();
  ImGui::BeginTooltip();
  ImGui::TextUnformatted(("A flight recorder keeps sums of older events, by stack" +
                          (document.trace->folded.empty() ? "" : " and every " + text_of_seconds(interval)) + ".")
                             .c_str());
  ImGui::TextUnformatted("The pale curve shows live bytes according to these sums.");
  ImGui::TextUnformatted("Only allocations still live at the dashed line are shown.");
  if (!document.trace->folded.empty())
    ImGui::TextDisabled("Stacks and Flame show the sums under \u201Csummed up\u201D.");
  ImGui::EndTooltip();
}

}  // namespace

const std::vector<FoldedPoint>& TimelinePane::folded_series_of(Scene& scene) {
  static const std::vector<FoldedPoint> nothing;
  if (scene.doc().trace->folded.empty()) return nothing;
  const FoldedHistory& sums = scene.doc().trace->folded;
  const FoldedKey key{sums.rows.size(), sums.begin, sums.until, scene.selection.heap};
  folded_.request(
      key,
      [document = scene.document, key](const Progress&) { return std::optional(folded_series(*document, key.heap)); },
      false);
  if (!folded_.is_current()) scene.busy = true;
  return folded_.value() && folded_.key()->heap == key.heap ? *folded_.value() : nothing;
}

void TimelinePane::draw_folded_series(Scene& scene, ImDrawList& list, const TimeAxis& axis, const Area& area,
                                      std::uint64_t top) {
  const std::vector<FoldedPoint>& series = folded_series_of(scene);
  const Colour colour = folded_colour(scene.theme);
  for (std::size_t i = 1; i < series.size(); ++i) {
    const float left = std::max(axis.x_of(series[i - 1].time), area.left);
    const float right = std::min(axis.x_of(series[i].time), area.right);
    if (left < right) fill(list, {left, y_of(area, series[i].live.count, top), right, area.bottom}, colour);
  }
}

void TimelinePane::draw_folded_end(Scene& scene, ImDrawList& list, const TimeAxis& axis, const Area& area) {
  const Document& document = scene.doc();
  folded_is_told_ = false;
  if (document.trace->losses.folded_events == 0) return;
  const float x = std::floor(axis.x_of(document.trace->losses.folded_until));
  if (x < area.left) return;
  for (float y = area.top; x < area.right && y < area.bottom; y += scene.px(7))
    fill(list, {x, y, x + scene.px(1), y + scene.px(4)}, scene.theme.faint);
  const std::string words = folded_words(document);
  const float width = ImGui::CalcTextSize(words.c_str()).x + scene.px(10);
  const float left = std::max(std::min(x, area.right) - width, area.left + scene.px(90));
  const Area said{left, area.top + scene.px(3), left + width, area.top + scene.px(3) + ImGui::GetTextLineHeight()};
  label(scene, list, said.min(), words);
  note_place(scene, "timeline/folded", said);
  if (!ImGui::IsItemHovered() || !said.contains(ImGui::GetIO().MousePos)) return;
  folded_is_told_ = true;
  tell_folded(document);
}

}  // namespace memreel::viewer
