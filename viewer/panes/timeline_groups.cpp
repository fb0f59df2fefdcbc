// Live bytes in the timeline, split by category or by holder.
#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "formats/model/quantity.h"
#include "viewer/panes/categories.h"
#include "viewer/panes/series.h"
#include "viewer/panes/timeline_pane.h"

namespace memreel::viewer {
namespace {

Colour group_colour(const Theme& theme, SplitBy by, const StackedSeries& groups, std::size_t g) {
  const StackedSeries::Group& group = groups.groups[g];
  if (group.is_rest) return theme.rest();
  if (by == SplitBy::category) return theme.category(static_cast<Category>(group.key));
  return by == SplitBy::stack ? theme.shade(group.key) : theme.hue(g);
}

/// For each column, its stretch with the most bytes, since the series shows its maximum; none before the first event.
std::vector<std::optional<std::size_t>> fullest_stretches(const StackedSeries& groups,
                                                          const std::vector<SeriesColumn>& columns) {
  std::vector<std::optional<std::size_t>> fullest(columns.size());
  const std::vector<std::uint64_t>& totals = groups.totals;
  for (std::size_t x = 0; x < columns.size() && !totals.empty(); ++x) {
    if (columns[x].end == 0) continue;
    const auto stretch_of = [&](std::uint32_t event) {
      return static_cast<std::ptrdiff_t>(std::min<std::size_t>(event / groups.stride, totals.size() - 1));
    };
    const auto first = totals.begin() + stretch_of(std::max(columns[x].begin, 1U) - 1);
    const auto last = totals.begin() + stretch_of(columns[x].end - 1);
    fullest[x] = static_cast<std::size_t>(std::max_element(first, std::next(last)) - totals.begin());
  }
  return fullest;
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
      note_place(scene, "timeline/" + std::string(name_of(category)), area);
      if (!ImGui::IsWindowHovered() || !area.contains(ImGui::GetIO().MousePos)) continue;
      selection.hover(category);
      tell_categories(scene, *live);
      if (ImGui::IsMouseClicked(ImGuiMouseButton_Left)) selection.toggle(category);
      continue;
    }
    if (!legend_entry(scene, "", colour, fitting(group.label, scene.px(170)))) break;
    if (by != SplitBy::stack || group.is_rest) continue;
    if (ImGui::IsItemHovered()) selection.hover(StackId{group.key});
    if (ImGui::IsItemClicked()) selection.select(StackId{group.key});
  }
}

bool TimelinePane::draw_groups(Scene& scene, ImDrawList& list, const Area& area, std::uint64_t top) {
  const auto groups = request_groups(scene);
  if (!groups) return false;
  const std::vector<SeriesColumn>& columns = plot_.contents->series;
  const auto x_of = [&](std::size_t x) { return plot_.x_of(x); };
  fill_columns(list, columns.size(), x_of, scene.theme.reserved, [&](std::size_t x) {
    return std::pair{y_of(area, value_of(columns[x].extent.max, Metric::reserved), top), area.bottom};
  });
  const auto fullest = fullest_stretches(*groups, columns);
  const std::optional<Category> lit =
      scene.split() == SplitBy::category ? scene.selection.lit_category() : std::nullopt;
  std::vector<std::uint64_t> base(columns.size());
  for (std::size_t g = 0; g < groups->groups.size(); ++g) {
    const StackedSeries::Group& group = groups->groups[g];
    Colour colour = group_colour(scene.theme, scene.split(), *groups, g);
    if (lit && group.key != static_cast<std::uint32_t>(*lit)) colour = mix(colour, scene.theme.reserved, 0.8);
    const auto bytes = [&](std::size_t x) { return fullest[x] ? group.bytes[*fullest[x]] : 0; };
    fill_columns(list, columns.size(), x_of, colour, [&](std::size_t x) {
      return bytes(x) == 0 ? std::pair{area.bottom, area.bottom}
                           : std::pair{y_of(area, base[x] + bytes(x), top), y_of(area, base[x], top)};
    });
    for (std::size_t x = 0; x < columns.size(); ++x) base[x] += bytes(x);
  }
  return true;
}

}  // namespace memreel::viewer
