// SPDX-License-Identifier: Apache-2.0
#include "viewer/panes/instant_panes.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <set>
#include <unordered_map>

#include "analyzer/describe/live_groups.h"
#include "formats/model/quantity.h"
#include "viewer/model/labels.h"
#include "viewer/panes/draw.h"

namespace memreel::viewer {
namespace {

constexpr std::array<const char*, colour_words.size()> colour_names{
    "colour by category", "colour by stack", "colour by size",   "colour by age",
    "colour by stream",   "colour by pool",  "colour by verdict"};

}  // namespace

ColourOf colours_of(const Scene& scene, const std::shared_ptr<const Findings>& findings) {
  const Theme& theme = scene.theme;
  switch (scene.colour()) {
    case MapColour::category: {
      std::array<Colour, category_count> colours{};
      for (std::size_t c = 0; c < colours.size(); ++c) colours.at(c) = theme.category(static_cast<Category>(c));
      return [known = scene.classification, colours](std::uint32_t id) {
        return colours[static_cast<std::size_t>(known ? known->category(id) : Category::unknown)];
      };
    }
    case MapColour::stack:
      return [document = scene.document, shades = theme.shades()](std::uint32_t id) {
        return shades[Theme::shade_index(index(document->site_of(id)))];
      };
    case MapColour::size:
      // 512 B to 1 GiB, on a logarithmic scale.
      return [document = scene.document, theme](std::uint32_t id) {
        const double power = static_cast<double>(std::bit_width(document->size_of(id).count)) - 9;
        return theme.ramp(power / 21);
      };
    case MapColour::age: {
      const std::uint32_t cursor = std::max(scene.doc().allocations_before(scene.selection.cursor), 1U);
      return [theme, cursor](std::uint32_t id) { return theme.ramp(static_cast<double>(id) / cursor); };
    }
    case MapColour::stream:
      return [document = scene.document, theme](std::uint32_t id) {
        return theme.hue(index((*document->tables)[document->origin_of(id)].stream));
      };
    case MapColour::verdict:
      return [findings, theme](std::uint32_t id) {
        if (!findings || id >= findings->of_allocation.size() || !findings->of_allocation[id]) return theme.rest();
        return verdict_colour(theme, *findings->of_allocation[id]);
      };
    case MapColour::pool:
      break;
  }
  return [document = scene.document, theme](std::uint32_t id) {
    return theme.hue(index((*document->tables)[document->origin_of(id)].pool));
  };
}

ColourOf with_others_pale(const Scene& scene, ColourOf colour) {
  if (const auto sieve = scene.sieve_but_category())
    colour = [sieve, ground = scene.theme.segment, colour = std::move(colour)](std::uint32_t id) {
      return sieve->passes_but_category(id) ? colour(id) : mix(colour(id), ground, 0.92);
    };
  if (const std::optional<StackId> lit = scene.selection.lit_stack())
    return [document = scene.document, lit = scene.doc().site_of(*lit), ground = scene.theme.segment,
            colour = std::move(colour)](std::uint32_t id) {
      return document->site_of(id) == lit ? colour(id) : mix(colour(id), ground, 0.85);
    };
  const std::optional<Category> lit = scene.selection.lit_category();
  if (!lit || !scene.classification) return colour;
  return [known = scene.classification, lit = *lit, ground = scene.theme.segment, colour = std::move(colour)](
             std::uint32_t id) { return known->category(id) == lit ? colour(id) : mix(colour(id), ground, 0.85); };
}

const std::vector<StackId>& MapPane::heaviest_stacks(const Scene& scene) {
  const HeapAt& heap = scene.heap;
  const std::uint32_t version = scene.doc().event_count();
  if (heaviest_.heap == heap.heap && heaviest_.event == heap.event && heaviest_.version == version)
    return heaviest_.stacks;
  heaviest_ = {.heap = heap.heap, .event = heap.event, .version = version, .stacks = {}};
  std::unordered_map<StackId, std::uint64_t> bytes;
  for (const HeldBlock& block : heap.blocks) bytes[scene.doc().site_of(block.allocation)] += block.size.count;
  std::vector<std::pair<std::uint64_t, StackId>> order;
  for (const auto& [stack, held] : bytes) order.emplace_back(held, stack);
  constexpr std::size_t most = 3;
  const auto end = order.begin() + static_cast<std::ptrdiff_t>(std::min(most, order.size()));
  std::partial_sort(order.begin(), end, order.end(), std::greater{});
  for (auto one = order.begin(); one != end; ++one) heaviest_.stacks.push_back(one->second);
  return heaviest_.stacks;
}

std::vector<MapPane::Entry> MapPane::named_colours(const Scene& scene) {
  const Theme& theme = scene.theme;
  const MapColour by = scene.colour();
  std::vector<Entry> entries;
  if (by == MapColour::category) {
    std::vector<CategoryStyle> styles(category_styles().begin(), category_styles().end());
    const auto held = [&](const CategoryStyle& style) {
      return scene.live.at(static_cast<std::size_t>(style.category)).bytes;
    };
    std::ranges::stable_sort(styles, std::ranges::greater{}, held);
    for (const CategoryStyle& style : styles)
      if (held(style) > 0_B)
        entries.push_back({.name = std::string(words_of(style.category)),
                           .colour = theme.category(style.category),
                           .category = style.category});
  } else if (by == MapColour::stack) {
    for (const StackId stack : heaviest_stacks(scene))
      entries.push_back(
          {fitting(stack_label(scene.tables(), stack), scene.px(170)), theme.shade(index(stack)), stack, {}});
  } else if (by == MapColour::verdict) {
    for (const LeakVerdict v : {LeakVerdict::leak, LeakVerdict::suspected, LeakVerdict::resident, LeakVerdict::cache,
                                LeakVerdict::warm_up, LeakVerdict::sawtooth, LeakVerdict::unknown_before_attach})
      entries.push_back({std::string(name_of(v)), verdict_colour(theme, v), {}, {}});
    entries.push_back({"free requested", theme.rest(), {}, {}});
  } else if (by == MapColour::stream || by == MapColour::pool) {
    const bool by_stream = by == MapColour::stream;
    std::set<std::uint32_t> seen;
    for (const Origin& origin : scene.tables().origins) {
      const std::uint32_t id = by_stream ? index(origin.stream) : index(origin.pool);
      if (origin.heap != scene.selection.heap || !seen.insert(id).second) continue;
      std::string name =
          by_stream ? stream_label(scene.tables(), origin.stream) : pool_label(scene.tables(), origin.pool);
      entries.push_back({std::move(name), theme.hue(id), {}, {}});
    }
  }
  return entries;
}

void MapPane::draw_legend(Scene& scene, float right) {
  const Theme& theme = scene.theme;
  const MapColour by = scene.colour();
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const ImVec2 from = ImGui::GetCursorScreenPos();
  const float size = scene.px(9), drop = (ImGui::GetFrameHeight() - size) / 2;
  const float text_drop = (ImGui::GetFrameHeight() - ImGui::GetTextLineHeight()) / 2;
  float x = from.x + scene.px(8);
  const auto word = [&](const std::string& what) {
    text(list, {x, from.y + text_drop}, theme.faint, what);
    x += ImGui::CalcTextSize(what.c_str()).x;
  };
  if (by == MapColour::size || by == MapColour::age) {
    word(by == MapColour::size ? "512 B" : "oldest");
    x += scene.px(6);
    constexpr int steps = 32;
    for (int i = 0; i < steps; ++i) {
      const float left = x + scene.px(3) * static_cast<float>(i);
      fill(list, {left, from.y + drop, left + scene.px(3), from.y + drop + size},
           theme.ramp(static_cast<double>(i) / (steps - 1)));
    }
    x += scene.px(3) * steps + scene.px(6);
    word(by == MapColour::size ? "1 GiB" : "at the cursor");
  }
  int number = 0;
  for (const Entry& entry : named_colours(scene)) {
    if (x + size + scene.px(20) + ImGui::CalcTextSize(entry.name.c_str()).x > right) break;
    const float left = x;
    list.AddRectFilled({x, from.y + drop}, {x + size, from.y + drop + size}, entry.colour, scene.px(2));
    x += size + scene.px(5);
    word(entry.name);
    const Area area{left, from.y, x, from.y + ImGui::GetFrameHeight()};
    note_place(scene, "map/legend " + std::to_string(++number), area);
    x += scene.px(12);
    if (!ImGui::IsWindowHovered() || !area.contains(ImGui::GetIO().MousePos)) continue;
    const bool clicked = ImGui::IsMouseClicked(ImGuiMouseButton_Left);
    if (entry.stack) scene.selection.hover(*entry.stack);
    if (entry.stack && clicked) scene.selection.select(*entry.stack);
    if (entry.category) scene.selection.hover(*entry.category);
    if (entry.category && clicked) scene.selection.toggle(*entry.category);
  }
  ImGui::Dummy({std::max(x - from.x, 1.0F), ImGui::GetFrameHeight()});
}

void MapPane::draw(Scene& scene, Verdicts& verdicts) {
  const auto findings = scene.colour() == MapColour::verdict ? verdicts.ask(scene) : nullptr;
  draw_toolbar(scene);
  const Area area = take_area("map");
  note_place(scene, "map", area);
  ImDrawList& list = *ImGui::GetWindowDrawList();
  fill(list, area, scene.theme.ground);
  if (scene.series() == nullptr || scene.doc().empty()) {
    explain(scene, area, "No allocations yet.");
    return;
  }
  const TimeAxis axis(scene.selection.view, area, scene.selection.axis);
  request(scene, area, findings);
  list.PushClipRect(area.min(), area.max(), true);
  draw_picture(scene, list, axis, area);
  if (shown_) {
    draw_axes(scene, list, axis, area);
    draw_labels(scene, list, axis, area);
    point(scene, list, axis, area);
  }
  draw_instants(scene, list, axis, area);
  list.PopClipRect();
  if (ImGui::IsItemHovered() && ImGui::GetIO().KeyAlt && ImGui::GetIO().MouseWheel != 0) {
    // Alt and the wheel zoom addresses instead of time.
    const double at =
        high_ - (high_ - low_) * static_cast<double>((ImGui::GetIO().MousePos.y - area.top) / area.height());
    const double factor = std::pow(0.75, static_cast<double>(ImGui::GetIO().MouseWheel));
    low_ = std::max(0.0, at - (at - low_) * factor);
    high_ = std::min(1.0, at + (high_ - at) * factor);
    return;
  }
  navigate(scene, axis, area, false);
}

void MapPane::draw_toolbar(Scene& scene) {
  Selection& selection = scene.selection;
  ImGui::SetNextItemWidth(scene.px(142));
  if (ImGui::BeginCombo("##colour", colour_names.at(static_cast<std::size_t>(scene.colour())))) {
    for (std::size_t i = 0; i < colour_names.size(); ++i) {
      const auto by = static_cast<MapColour>(i);
      if (by == MapColour::category && !scene.has_categories()) continue;
      if (menu_entry(scene, colour_names.at(i), scene.colour() == by, std::string("colour/") + colour_names.at(i)))
        selection.colour = by;
    }
    ImGui::EndCombo();
  }
  note_item(scene, "colour");
  ImGui::SameLine(0, 0);
  const float right = ImGui::GetWindowPos().x + ImGui::GetContentRegionMax().x - (high_ - low_ < 1 ? scene.px(100) : 0);
  draw_legend(scene, right);
  ImGui::SameLine();
  std::string state = "allocation map";
  if (shown_) {
    state = counted(shown_->drawn, "allocation");
    if (shown_->folded != 0)
      state += ", " + text_of(std::uint64_t{shown_->folded}) + " narrower than a pixel, merged with their neighbours";
  }
  if (picture_.running() && picture_.progress() > 0.05F)
    state += "   drawing " + std::to_string(static_cast<int>(picture_.progress() * 100)) + " %";
  ImGui::AlignTextToFramePadding();
  ImGui::TextDisabled("%s", fitting(state, right - ImGui::GetCursorScreenPos().x).c_str());
  if (ImGui::IsItemHovered()) ImGui::SetTooltip("%s", state.c_str());
  if (high_ - low_ < 1) {
    ImGui::SameLine(ImGui::GetContentRegionMax().x - scene.px(94));
    if (push_button(scene, "map/all addresses", {.is_large = true})) {
      low_ = 0;
      high_ = 1;
    }
  }
}

void MapPane::request(Scene& scene, const Area& area, const std::shared_ptr<const Findings>& findings) {
  const Selection& selection = scene.selection;
  const std::optional<Category> lit_category = selection.lit_stack() ? std::nullopt : selection.lit_category();
  const MapQuery query{.heap = selection.heap,
                       .begin = selection.view.begin,
                       .end = selection.view.end,
                       .axis = selection.axis,
                       .low = low_,
                       .high = high_,
                       .width = static_cast<std::uint32_t>(std::max(area.width(), 1.0F)),
                       .height = static_cast<std::uint32_t>(std::max(area.height(), 1.0F)),
                       .label_width = static_cast<std::uint32_t>(scene.px(76)),
                       .label_height = static_cast<std::uint32_t>(ImGui::GetTextLineHeight()),
                       .colour = scene.colour(),
                       .palette = (scene.theme.dark ? 1U : 0U) + (findings ? 2U : 0U),
                       .classified = scene.colour() == MapColour::category || lit_category ? scene.classified() : 0,
                       .lit = selection.lit_stack(),
                       .lit_category = lit_category,
                       .sieve = scene.sieve_but_category(),
                       .version = scene.doc().event_count()};
  ColourOf colour = with_others_pale(scene, colours_of(scene, findings));
  auto draw = [document = scene.document, query, segment = scene.theme.segment, colour = std::move(colour)](
                  const Progress& progress) { return draw_map(*document, query, colour, segment, progress); };
  picture_.request(query, std::move(draw), false);
  if (!picture_.is_current()) scene.busy = true;
  if (const auto latest = picture_.value(); latest != shown_) {
    shown_ = latest;
    texture_.upload(shown_->query.width, shown_->query.height, shown_->pixels);
  }
  // `draw` was moved from, so that what colours_of() allocated is no longer its own.
}  // NOLINT(clang-analyzer-cplusplus.NewDeleteLeaks)

void MapPane::draw_picture(Scene& scene, ImDrawList& list, const TimeAxis& axis, const Area& area) {
  if (!shown_ || shown_->query.heap != scene.selection.heap || texture_.empty()) return;
  // Until the picture for this view is ready, the previous one is shown in its place.
  const MapQuery& query = shown_->query;
  const double scale = static_cast<double>(area.height()) / (high_ - low_);
  const float top = area.top + static_cast<float>((high_ - query.high) * scale);
  const float bottom = area.top + static_cast<float>((high_ - query.low) * scale);
  if (query.axis.by() != scene.selection.axis.by()) return;  // it would be distorted
  const auto x_of = [&](Nanoseconds time) { return static_cast<float>(axis.exact_x_of(time)); };
  list.AddImage(texture_.id(), {x_of(query.begin), top}, {x_of(query.end), bottom});
}

std::optional<Area> MapPane::box_of(const Scene& scene, const TimeAxis& axis, const Area& area,
                                    std::uint32_t id) const {
  const Allocation a = scene.doc().allocation(id);
  const auto offset = shown_->scale.offset_of(a.address);
  if (!offset || scene.doc().heap_of(a.origin) != scene.selection.heap) return std::nullopt;
  return Area{axis.x_of(scene.doc().time(a.begin)), y_of(area, *offset + a.size.count),
              a.completed == never ? area.right + 2 : axis.x_of(scene.doc().time(a.completed)), y_of(area, *offset)};
}

void MapPane::frame_allocation(Scene& scene, ImDrawList& list, const TimeAxis& axis, const Area& area, std::uint32_t id,
                               Colour colour) const {
  std::optional<Area> box = box_of(scene, axis, area, id);
  if (!box) return;
  box->right = std::max(box->right, box->left + scene.px(3));
  box->bottom = std::max(box->bottom, box->top + scene.px(3));
  outline(list, {box->left - 1, box->top - 1, box->right + 1, box->bottom + 1}, colour, scene.px(1.5));
}

void MapPane::point(Scene& scene, ImDrawList& list, const TimeAxis& axis, const Area& area) {
  Selection& selection = scene.selection;
  if (selection.allocation) frame_allocation(scene, list, axis, area, *selection.allocation, scene.theme.selection);
  if (selection.hovered_allocation)
    frame_allocation(scene, list, axis, area, *selection.hovered_allocation, with_alpha(scene.theme.selection, 0xA0));

  if (!ImGui::IsItemHovered()) return;
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  const Nanoseconds time = axis.time_at(mouse.x);
  if (mouse.x != pointed_at_.x || mouse.y != pointed_at_.y) {
    pointed_at_ = mouse;
    const double share = high_ - (high_ - low_) * static_cast<double>((mouse.y - area.top) / area.height());
    const double offset = std::max(0.0, share * static_cast<double>(shown_->scale.total()));
    const auto address = shown_->scale.address_at(static_cast<std::uint64_t>(offset));
    pointed_ = address ? allocation_at(scene.doc(), selection.heap, time, *address) : std::nullopt;
  }
  if (pointed_ && *pointed_ < scene.doc().allocation_count()) {
    selection.hover(*pointed_);
    const Document& document = scene.doc();
    ImGui::BeginTooltip();
    ImGui::TextUnformatted(text_of(document.size_of(*pointed_)).c_str());
    if (scene.has_categories())
      ImGui::TextUnformatted(std::string(words_of(scene.classification->category(*pointed_))).c_str());
    ImGui::TextDisabled("%s", maker_label(scene, *pointed_).c_str());
    ImGui::EndTooltip();
  }
  if (ImGui::IsItemDeactivated() && ImGui::IsMouseReleased(ImGuiMouseButton_Left) && !was_dragged()) {
    selection.cursor = scene.doc().events_until(time);
    if (pointed_) selection.select(scene.doc(), *pointed_);
    selection.remember();
  }
}

// The labels of the allocation map: bytes and addresses upwards, time to the right, large allocations.

float MapPane::y_of(const Area& area, std::uint64_t offset) const {
  const double share =
      static_cast<double>(offset) / static_cast<double>(std::max<std::uint64_t>(shown_->scale.total(), 1));
  return area.top + static_cast<float>((high_ - share) / (high_ - low_)) * area.height();
}

void MapPane::draw_axes(Scene& scene, ImDrawList& list, const TimeAxis& axis, const Area& area) const {
  const std::uint64_t total = shown_->scale.total();
  if (total == 0) return;
  const float line = ImGui::GetTextLineHeight();
  const auto at_share = [&](double share) { return static_cast<std::uint64_t>(share * static_cast<double>(total)); };
  // Bytes of the address ranges that the heap had, counted from the lowest.
  const std::uint64_t first = at_share(low_), last = at_share(high_);
  const int most = std::clamp(static_cast<int>(area.height() / (3 * line)), 1, 6);
  const std::uint64_t step = byte_tick(std::max<std::uint64_t>(last - first, 1), most);
  for (std::uint64_t tick = (first / step + 1) * step; tick < last; tick += step) {
    const float y = std::floor(y_of(area, tick));
    if (y < area.top + line / 2) break;
    fill(list, {area.left, y, area.left + scene.px(6), y + 1}, scene.theme.faint);
    label(scene, list, {area.left + scene.px(10), y - line / 2}, tick_text(tick));
    note_place(scene, "map/tick", {area.left, y - line / 2, area.left + scene.px(60), y + line / 2});
  }
  // A line where an address range begins after omitted addresses; with its first address if there is room.
  const bool has_room = area.height() > 16 * line, says_time = !scene.places.contains("marks");
  float free_above = area.bottom - (says_time ? 2 : 1) * line;
  for (const AddressScale::Range& range : shown_->scale.ranges()) {
    const float y = std::floor(y_of(area, range.offset));
    if (y < area.top || y > area.bottom + 1) continue;
    if (range.offset != 0) fill(list, {area.left, y, area.right, y + 1}, with_alpha(scene.theme.text, 0x30));
    if (!has_room || y - line > free_above || y - line < area.top) continue;
    const std::string address = address_text(range.begin);
    const float left = area.right - ImGui::CalcTextSize(address.c_str()).x - scene.px(8);
    label(scene, list, {left, y - line - scene.px(1)}, address);
    note_place(scene, "map/address", {left, y - line, area.right, y});
    free_above = y - 2 * line;
  }
  // The marks have the same axis; if they are not on screen, the map labels time itself.
  if (!says_time) return;
  for (const TimeAxis::Tick& tick : axis.labelled_ticks(scene.doc().first_time(), scene.px(120))) {
    fill(list, {std::floor(tick.x), area.bottom - scene.px(5), std::floor(tick.x) + 1, area.bottom}, scene.theme.text);
    label(scene, list, {std::floor(tick.x) + scene.px(4), area.bottom - line - scene.px(2)}, tick.label);
    note_place(scene, "map/time", {tick.x, area.bottom - line, tick.x + scene.px(60), area.bottom});
  }
}

/// The picture may be for another view than the one on screen: label only what has room in this one.
void MapPane::draw_labels(Scene& scene, ImDrawList& list, const TimeAxis& axis, const Area& area) {
  const float line = ImGui::GetTextLineHeight(), least = scene.px(60);
  const ColourOf colour = with_others_pale(scene, colours_of(scene, scene.findings));
  int noted = 0;
  if (shown_->query.heap != scene.selection.heap) return;
  for (const LabelledAllocation& large : shown_->labelled) {
    const std::uint32_t id = large.id;
    if (id >= scene.doc().allocation_count()) continue;
    const Area seen{std::max(axis.x_of(large.begin), area.left),
                    std::max(y_of(area, large.offset + large.size.count), area.top),
                    std::min(large.end ? axis.x_of(*large.end) : area.right, area.right),
                    std::min(y_of(area, large.offset), area.bottom)};
    if (seen.width() < least || seen.height() < line) continue;
    const std::string size = text_of(large.size);
    const std::string shown = fitting(size + "  " + stack_labels_.of_block(scene, id), seen.width() - scene.px(8));
    // Beside the ticks of the left edge, not over them.
    const float left = std::max(seen.left + scene.px(4), area.left + scene.px(64));
    if (left + ImGui::CalcTextSize(shown.c_str()).x > seen.right) continue;
    text(list, {left, seen.top + std::max((std::min(seen.height(), 2 * line) - line) / 2, 0.0F)}, ink_on(colour(id)),
         shown);
    constexpr int most_noted = 8;  // for tests
    if (noted < most_noted) note_place(scene, "map/label " + std::to_string(noted++), seen);
  }
}

}  // namespace memreel::viewer
