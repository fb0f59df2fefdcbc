// SPDX-License-Identifier: Apache-2.0
#include "viewer/panes/draw.h"

#include <GL/gl.h>
#include <GL/glext.h>

#include <imgui_internal.h>  // for the list of windows

#include <array>
#include <bit>
#include <cmath>
#include <type_traits>

#include "formats/model/quantity.h"
#include "viewer/model/labels.h"

namespace memreel::viewer {

Area take_area(const char* name) {
  const ImVec2 at = ImGui::GetCursorScreenPos();
  ImVec2 size = ImGui::GetContentRegionAvail();
  size.x = std::max(size.x, 1.0F);
  size.y = std::max(size.y, 1.0F);
  ImGui::InvisibleButton(name, size, ImGuiButtonFlags_MouseButtonLeft | ImGuiButtonFlags_MouseButtonRight);
  return {std::floor(at.x), std::floor(at.y), std::floor(at.x + size.x), std::floor(at.y + size.y)};
}

void note_place(Scene& scene, const std::string& name, const Area& area) {
  scene.places[name] = {area.left, area.top, area.width(), area.height()};
}

namespace {

void note_last(Scene& scene, const std::string& name, FocusKind kind) {
  const ImVec2 from = ImGui::GetItemRectMin(), to = ImGui::GetItemRectMax();
  note_place(scene, name, {from.x, from.y, to.x, to.y});
  scene.focus.add_item(name, kind);
}

}  // namespace

void note_item(Scene& scene, const std::string& name) { note_last(scene, name, FocusKind::button); }

void note_field(Scene& scene, const std::string& name) { note_last(scene, name, FocusKind::field); }

bool menu_entry(Scene& scene, const std::string& label, bool chosen, const std::string& place) {
  const bool picked = ImGui::Selectable(label.c_str(), chosen);
  note_item(scene, place);
  if (chosen) scene.focus.begin_at(place);
  return picked;
}

void fill(ImDrawList& list, const Area& area, Colour colour) { list.AddRectFilled(area.min(), area.max(), colour); }

void outline(ImDrawList& list, const Area& area, Colour colour, float thickness) {
  list.AddRect(area.min(), area.max(), colour, 0, 0, thickness);
}

void text(ImDrawList& list, ImVec2 at, Colour colour, std::string_view what, float align) {
  const char* const end = what.data() + what.size();
  if (align != 0) at.x -= std::floor(align * ImGui::CalcTextSize(what.data(), end).x);
  list.AddText({std::floor(at.x), std::floor(at.y)}, colour, what.data(), end);
}

void tick_label(const Scene& scene, ImDrawList& list, ImVec2 at, float right, std::string_view what) {
  const float gap = scene.px(4);
  const bool fits = at.x + gap + ImGui::CalcTextSize(what.data(), what.data() + what.size()).x <= right;
  text(list, {fits ? at.x + gap : at.x - gap, at.y}, scene.theme.faint, what, fits ? 0.0F : 1.0F);
}

std::string fitting(std::string_view what, float width) {
  const auto width_of = [](std::string_view t) { return ImGui::CalcTextSize(t.data(), t.data() + t.size()).x; };
  if (what.empty() || width_of(what) <= width) return std::string(what);
  const float ellipsis = width_of("\u2026");
  std::size_t low = 0, high = what.size();
  while (low < high) {
    const std::size_t middle = (low + high + 1) / 2;
    if (width_of(what.substr(0, middle)) + ellipsis <= width)
      low = middle;
    else
      high = middle - 1;
  }
  while (low > 0 && low < what.size() && (static_cast<unsigned char>(what[low]) & 0xC0U) == 0x80U) --low;
  if (low == 0) return {};
  return std::string(what.substr(0, low)) + "\u2026";
}

TimeAxis::TimeAxis(TimeRange view, Area area, AxisScale scale) : view_(view), area_(area), scale_(std::move(scale)) {
  if (scale_.by() == AxisBy::time) return;
  begin_ = scale_.position_of(view.begin);
  length_ = std::max(scale_.position_of(view.end) - begin_, 1e-9);
}

double TimeAxis::share_of(Nanoseconds time) const {
  if (scale_.by() != AxisBy::time) return (scale_.position_of(time) - begin_) / length_;
  return static_cast<double>((time - view_.begin).count()) / static_cast<double>(view_.length().count());
}

float TimeAxis::x_of(Nanoseconds time) const {
  return area_.left + static_cast<float>(std::clamp(share_of(time), -4.0, 5.0) * static_cast<double>(area_.width()));
}

double TimeAxis::exact_x_of(Nanoseconds time) const {
  return static_cast<double>(area_.left) + share_of(time) * static_cast<double>(area_.width());
}

Nanoseconds TimeAxis::time_at(float x) const {
  const double share = static_cast<double>(x - area_.left) / static_cast<double>(area_.width());
  if (scale_.by() != AxisBy::time) return scale_.time_at(begin_ + share * length_);
  return view_.begin + Nanoseconds{static_cast<std::int64_t>(share * static_cast<double>(view_.length().count()))};
}

std::vector<TimeAxis::Tick> TimeAxis::labelled_ticks(Nanoseconds zero, float spacing) const {
  std::vector<Tick> labelled;
  if (scale_.by() == AxisBy::time) {
    for (const Nanoseconds at : ticks(zero, spacing))
      labelled.push_back({x_of(at), time_text(at - zero, tick_step(spacing))});
    return labelled;
  }
  const double wanted = length_ * static_cast<double>(spacing / std::max(area_.width(), 1.0F));
  double step = 1;
  for (int i = 0; step < wanted; ++i) step *= i % 3 == 1 ? 2.5 : 2;  // 1, 2, 5, 10 ...
  // Event 0 is at position 1.
  const double first = scale_.by() == AxisBy::event ? 1 : 0;
  const double last = std::min(begin_ + length_, scale_.last_step().value_or(begin_ + length_) - 0.001) - first;
  for (double at = std::ceil(std::max(begin_ - first, 0.0) / step) * step; at <= last && labelled.size() < 200;
       at += step) {
    const auto number = static_cast<std::uint64_t>(at);
    const double share = (at + first - begin_) / length_;
    labelled.push_back({area_.left + static_cast<float>(share * static_cast<double>(area_.width())),
                        scale_.by() == AxisBy::step ? "step " + text_of(number + 1) : "event " + text_of(number)});
  }
  return labelled;
}

Nanoseconds TimeAxis::tick_step(float spacing) const {
  const double wanted =
      static_cast<double>(view_.length().count()) * static_cast<double>(spacing / std::max(area_.width(), 1.0F));
  double step = 1;
  // Round minutes, hours and days.
  constexpr std::array<double, 14> round_seconds{15,   30,   60,   120,    300,    600,    900,
                                                 1800, 3600, 7200, 10'800, 21'600, 43'200, 86'400};
  if (wanted > 10e9) {
    for (const double seconds : round_seconds)
      if (seconds * 1e9 >= wanted) return Nanoseconds{static_cast<std::int64_t>(seconds * 1e9)};
    step = 86'400e9;
  }
  while (step < wanted) {
    // 1, 2, 5, 10 ...
    for (const double factor : {2.0, 2.5, 2.0}) {
      if (step >= wanted) break;
      step *= factor;
    }
  }
  return Nanoseconds{static_cast<std::int64_t>(step)};
}

std::vector<Nanoseconds> TimeAxis::ticks(Nanoseconds zero, float spacing) const {
  const Nanoseconds step = tick_step(spacing);
  std::vector<Nanoseconds> ticks;
  std::int64_t i = (view_.begin - zero).count() / step.count();
  for (;; ++i) {
    const Nanoseconds at = zero + step * i;
    if (at > view_.end || ticks.size() > 200) break;
    if (at >= view_.begin) ticks.push_back(at);
  }
  return ticks;
}

std::uint64_t byte_tick(std::uint64_t top, int most) {
  std::uint64_t step = 1;
  while (top / step > static_cast<std::uint64_t>(most)) step *= 2;
  return step;
}

void navigate(Scene& scene, const TimeAxis& axis, const Area& area, bool click_puts_cursor) {
  Selection& selection = scene.selection;
  const ImGuiIO& io = ImGui::GetIO();
  const bool hovered = ImGui::IsItemHovered();
  const Nanoseconds here = axis.time_at(io.MousePos.x);
  if (hovered) {
    selection.hover(here);
    if (io.MouseWheel != 0) {
      const double strength = io.KeyCtrl ? 0.05 : io.KeyShift ? 0.5 : 0.25;
      selection.zoom(scene.doc(), std::pow(1 - strength, static_cast<double>(io.MouseWheel)), here);
    }
    if (io.MouseWheelH != 0) selection.pan(scene.doc(), -0.1 * static_cast<double>(io.MouseWheelH));
  }
  if (ImGui::IsItemActivated()) {
    const bool marks = io.KeyShift && ImGui::IsMouseClicked(ImGuiMouseButton_Left);
    selection.marking_from = marks ? std::optional(here) : std::nullopt;
  }
  if (!ImGui::IsItemActive() && !ImGui::IsItemDeactivated()) return;
  if (ImGui::IsMouseDragging(ImGuiMouseButton_Right, 2)) {
    selection.pan(scene.doc(), -static_cast<double>(io.MouseDelta.x / area.width()));
    return;
  }
  const bool released = ImGui::IsItemDeactivated() && ImGui::IsMouseReleased(ImGuiMouseButton_Left);
  const bool dragged = was_dragged();
  if (!released && !(dragged && ImGui::IsMouseDown(ImGuiMouseButton_Left))) return;
  if (dragged && selection.marking_from) {
    const Nanoseconds from = *selection.marking_from;
    selection.marked = TimeRange{std::min(from, here), std::max(from, here)};
  } else if (dragged || click_puts_cursor) {
    selection.cursor = scene.doc().events_until(here);
    if (!dragged) selection.marked.reset();
    if (released) selection.remember();
  }
}

bool was_dragged() {
  const ImVec2 by = ImGui::GetMouseDragDelta(ImGuiMouseButton_Left, 3);
  return by.x != 0 || by.y != 0;
}

namespace {

/// The time of the last of this many events.
Nanoseconds time_after(const Document& document, std::uint32_t events) {
  return document.time(std::clamp(events, 1U, document.event_count()) - 1);
}

}  // namespace

void draw_instants(Scene& scene, ImDrawList& list, const TimeAxis& axis, const Area& area) {
  const Selection& selection = scene.selection;
  const auto line_at = [&](Nanoseconds time, Colour colour) {
    const float x = std::floor(axis.x_of(time));
    if (x >= area.left && x < area.right) list.AddRectFilled({x, area.top}, {x + scene.px(1), area.bottom}, colour);
  };
  if (selection.marked) {
    const float left = std::max(area.left, axis.x_of(selection.marked->begin));
    const float right = std::min(area.right, axis.x_of(selection.marked->end));
    if (right > left) fill(list, {left, area.top, right, area.bottom}, with_alpha(scene.theme.accent, 0x28));
  }
  if (selection.hovered_time) line_at(*selection.hovered_time, with_alpha(scene.theme.text, 0x50));
  if (scene.doc().empty()) return;
  if (selection.kept) line_at(time_after(scene.doc(), *selection.kept), with_alpha(scene.theme.accent, 0xA0));
  line_at(time_after(scene.doc(), selection.cursor), scene.theme.accent);
}

void draw_handles(Scene& scene, ImDrawList& list, const TimeAxis& axis, const Area& area) {
  if (scene.doc().empty()) return;
  const auto handle = [&](std::uint32_t events, const char* name) {
    const float x = std::floor(axis.x_of(time_after(scene.doc(), events)));
    if (x < area.left || x >= area.right) return;
    const float half = scene.px(5), drop = *name == 0 ? scene.px(4) : ImGui::GetTextLineHeight();
    const float width = std::max(half, ImGui::CalcTextSize(name).x / 2 + scene.px(4));
    list.AddRectFilled({x - width, area.top}, {x + width, area.top + drop}, scene.theme.accent);
    list.AddTriangleFilled({x - width, area.top + drop}, {x + width, area.top + drop}, {x, area.top + drop + half},
                           scene.theme.accent);
    text(list, {x, area.top}, scene.theme.ground, name, 0.5F);
    note_place(scene, std::string("instant/") + (*name == 0 ? "cursor" : name),
               {x - width, area.top, x + width, area.top + drop});
  };
  if (scene.selection.kept) handle(*scene.selection.kept, "A");
  handle(scene.selection.cursor, scene.selection.kept ? "B" : "");
}

bool legend_entry(const Scene& scene, const char* name, Colour colour, const std::string& value, Colour inside) {
  const float size = scene.px(9), gap = scene.px(18), right = ImGui::GetContentRegionMax().x;
  const float name_width = *name == 0 ? 0 : ImGui::CalcTextSize(name).x + scene.px(6);
  ImGui::SameLine(0, gap);
  if (ImGui::GetCursorPosX() + size + scene.px(6) + name_width + ImGui::CalcTextSize(value.c_str()).x > right)
    return false;
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float drop = (ImGui::GetFrameHeight() - size) / 2;
  ImGui::GetWindowDrawList()->AddRectFilled({at.x, at.y + drop}, {at.x + size, at.y + drop + size}, colour,
                                            scene.px(2));
  if (inside != 0)
    fill(*ImGui::GetWindowDrawList(),
         {at.x + scene.px(1.5), at.y + drop + scene.px(1.5), at.x + size - scene.px(1.5),
          at.y + drop + size - scene.px(1.5)},
         inside);
  ImGui::SetCursorScreenPos({at.x + size + scene.px(6), at.y});
  ImGui::AlignTextToFramePadding();
  if (*name != 0) {
    ImGui::TextDisabled("%s", name);
    ImGui::SameLine(0, scene.px(6));
  }
  ImGui::TextUnformatted(value.c_str());
  return true;
}

Area legend_area(const Scene& scene, const std::string& name, const std::string& value) {
  const float width = scene.px(21) + ImGui::CalcTextSize(name.c_str()).x + ImGui::CalcTextSize(value.c_str()).x;
  const ImVec2 to = ImGui::GetItemRectMax();
  return {to.x - width, ImGui::GetItemRectMin().y, to.x, to.y};
}

void explain(Scene& scene, const Area& area, std::string_view what, std::string_view remedy) {
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const float middle = (area.left + area.right) / 2;
  float y = (area.top + area.bottom) / 2 - ImGui::GetTextLineHeight();
  text(list, {middle, y}, scene.theme.text, fitting(what, area.width() - scene.px(16)), 0.5F);
  y += ImGui::GetTextLineHeightWithSpacing();
  if (!remedy.empty()) text(list, {middle, y}, scene.theme.faint, fitting(remedy, area.width() - scene.px(16)), 0.5F);
}

bool draw_job_line(Scene& scene, const std::string& place, const std::string& what) {
  const bool is_pressed = push_button(scene, place);
  ImGui::SameLine();
  ImGui::TextDisabled("%s", what.c_str());
  return is_pressed;
}

void begin_dialog(const Theme& theme, float scale, const char* name, bool* open, ImGuiWindowFlags flags) {
  ImGui::PushStyleVar(ImGuiStyleVar_WindowBorderSize, std::max(1.0F, scale));
  ImGui::PushStyleColor(ImGuiCol_WindowBg, theme.popup);
  ImGui::Begin(name, open, flags);
  ImGui::PopStyleColor();
  ImGui::PopStyleVar();
}

void draw_shadows(float scale) {
  constexpr int steps = 8;
  constexpr Colour darkness = 14;  // of 255, for each step
  for (ImGuiWindow* const window : ImGui::GetCurrentContext()->Windows) {
    const bool is_menu = (window->Flags & ImGuiWindowFlags_Popup) != 0;
    const bool is_dialog = window->ParentWindow == nullptr && window->WindowBorderSize > 0 &&
                           (window->Flags & ImGuiWindowFlags_Tooltip) == 0;
    if (!window->WasActive || window->Hidden || !(is_menu || is_dialog)) continue;
    ImDrawList& list = *window->DrawList;
    const ImVec2 from = window->Pos, to{from.x + window->Size.x, from.y + window->Size.y};
    list.PushClipRectFullScreen();
    for (int step = 0; step < steps; ++step) {
      const float grown = scale * (1 + 2 * static_cast<float>(step)), down = scale * 4;
      list.AddRect({from.x - grown, from.y - grown + down}, {to.x + grown, to.y + grown + down},
                   rgb(0x000000, darkness * static_cast<Colour>(steps - step) / 4), window->WindowRounding + grown, 0,
                   2 * scale);
    }
    list.PopClipRect();
  }
}

bool item_entered(const Scene& scene) {
  // A field in which Enter is held ends the input on its own.
  return scene.enter && (ImGui::IsItemActive() || ImGui::IsItemDeactivated());
}

bool is_typing() { return ImGui::GetIO().WantTextInput && ImGui::IsAnyItemActive(); }

bool key_pressed(ImGuiKey key) {
#if IMGUI_VERSION_NUM >= 18700
  return ImGui::IsKeyPressed(key);
#else
  return ImGui::IsKeyPressed(ImGui::GetKeyIndex(key));
#endif
}

void property(Scene& scene, const char* label, const std::string& value, float column) {
  constexpr float told_seconds = 2;
  const float width = ImGui::CalcTextSize(value.c_str()).x + 1, room = ImGui::GetContentRegionAvail().x;
  const float beside = ImGui::CalcTextSize(label).x + ImGui::GetStyle().ItemSpacing.x;
  const std::string name = "value/" + std::string(label);
  const ImVec2 at = ImGui::GetCursorScreenPos();
  ImGuiStorage& storage = *ImGui::GetStateStorage();
  const ImGuiID copied = ImGui::GetID(name.c_str());
  const auto now = static_cast<float>(ImGui::GetTime());
  const bool takes = scene.focus.takes(name);
  if (takes) {
    ImGui::SetClipboardText(value.c_str());
    storage.SetFloat(copied, now);
  }
  // The word takes the room of the label, so that nothing moves.
  const bool tells = now - storage.GetFloat(copied, -told_seconds) < told_seconds;
  if (tells) text(*ImGui::GetWindowDrawList(), at, scene.theme.text, fitting("copied", beside));
  ImGui::PushStyleVar(ImGuiStyleVar_Alpha, tells ? 0.0F : ImGui::GetStyle().Alpha);
  ImGui::TextDisabled("%s", label);
  ImGui::PopStyleVar();
  // In a narrow pane right beside its name, or below it.
  if (column + width <= room)
    ImGui::SameLine(column);
  else if (beside + width <= room)
    ImGui::SameLine(beside);
  // A read-only field, so that its text can be selected and copied.
  std::string copyable = value;
  ImGui::PushID(label);
  ImGui::SetNextItemWidth(-1);
  ImGui::PushStyleColor(ImGuiCol_FrameBg, 0);
  ImGui::PushStyleVar(ImGuiStyleVar_FramePadding, {0, 0});
  ImGui::InputText("##value", copyable.data(), copyable.size() + 1, ImGuiInputTextFlags_ReadOnly);
  ImGui::PopStyleVar();
  ImGui::PopStyleColor();
  ImGui::PopID();
  const ImVec2 from = ImGui::GetItemRectMin(), to = ImGui::GetItemRectMax();
  note_place(scene, name, {from.x, from.y, to.x, to.y});
  scene.focus.add(name, FocusKind::drawn, from, {std::min(to.x, from.x + width), to.y});
}

float y_of(const Area& area, std::uint64_t bytes, std::uint64_t top) {
  return area.bottom -
         static_cast<float>(static_cast<double>(bytes) / static_cast<double>(std::max<std::uint64_t>(top, 1))) *
             area.height();
}

void draw_series(const Theme& theme, ImDrawList& list, const Area& area, std::uint64_t top,
                 const std::vector<SeriesColumn>& columns, bool has_pending, const ColumnPlace& x_of) {
  struct Part {
    Metric metric;
    Colour colour;
  };
  const std::array<Part, 3> parts{
      {{Metric::reserved, theme.reserved}, {Metric::held, theme.held}, {Metric::live, theme.live}}};
  for (const Part& part : parts) {
    // Without pending frees, held equals live.
    if (part.metric == Metric::held && !has_pending) continue;
    const auto y = [&](const Metrics& metrics) { return y_of(area, value_of(metrics, part.metric), top); };
    // The colour is solid up to the minimum and paler from there to the maximum.
    fill_columns(list, columns.size(), x_of, part.colour, [&](std::size_t x) {
      return std::pair{y(columns[x].extent.min), area.bottom};
    });
    fill_columns(list, columns.size(), x_of, with_alpha(part.colour, part.metric == Metric::held ? 0x60 : 0xA0),
                 [&](std::size_t x) {
                   return std::pair{y(columns[x].extent.max), y(columns[x].extent.min)};
                 });
  }
}

std::string tick_text(std::uint64_t bytes) {
  std::string label = text_of(Bytes{bytes});
  if (const std::size_t zeros = label.find(".00"); zeros != std::string::npos) label.erase(zeros, 3);
  return label;
}

std::uint64_t highest(const std::vector<SeriesColumn>& columns) {
  std::uint64_t top = 0;
  for (const SeriesColumn& c : columns)
    top = std::max({top, value_of(c.extent.max, Metric::reserved), value_of(c.extent.max, Metric::held)});
  return top;
}

void label(const Scene& scene, ImDrawList& list, ImVec2 at, const std::string& what) {
  const ImVec2 size = ImGui::CalcTextSize(what.c_str());
  list.AddRectFilled({at.x - scene.px(3), at.y}, {at.x + size.x + scene.px(3), at.y + size.y},
                     with_alpha(scene.theme.panel, 0xB8), scene.px(2));
  text(list, at, with_alpha(scene.theme.text, 0xD0), what);
}

Texture::~Texture() {
  if (name_ != 0) glDeleteTextures(1, &name_);
}

void Texture::upload(std::uint32_t width, std::uint32_t height, std::span<const std::uint32_t> pixels) {
  GLuint before = std::exchange(name_, 0);
  glGenTextures(1, &name_);  // while the other exists: names of deleted textures are given again
  if (before != 0) glDeleteTextures(1, &before);
  glBindTexture(GL_TEXTURE_2D, name_);
  // Nearest filtering keeps a rectangle of one pixel one pixel.
  glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MIN_FILTER, GL_NEAREST);
  glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MAG_FILTER, GL_NEAREST);
  glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_WRAP_S, GL_CLAMP_TO_EDGE);
  glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_WRAP_T, GL_CLAMP_TO_EDGE);
  glPixelStorei(GL_UNPACK_ROW_LENGTH, 0);
  glTexImage2D(GL_TEXTURE_2D, 0, GL_RGBA8, static_cast<GLsizei>(width), static_cast<GLsizei>(height), 0, GL_RGBA,
               GL_UNSIGNED_BYTE, pixels.data());
}

// A pointer up to Dear ImGui 1.91.3, a number of 64 bits since.
ImTextureID Texture::id() const {
  using Number = std::conditional_t<sizeof(ImTextureID) == sizeof(std::uint64_t), std::uint64_t, std::uint32_t>;
  return std::bit_cast<ImTextureID>(Number{name_});
}

}  // namespace memreel::viewer
