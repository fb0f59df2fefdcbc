// SPDX-License-Identifier: Apache-2.0
#include "viewer/panes/theme.h"

#include <algorithm>
#include <cmath>

#include "analyzer/describe/live_groups.h"
#include "formats/model/flat_map.h"

namespace memreel::viewer {
namespace {

// Okabe and Ito, "Color universal design" (2008); vermillion is reserved for alarms.
constexpr std::array<std::uint32_t, 6> hues{0x56B4E9, 0xE69F00, 0x009E73, 0xCC79A7, 0x0072B2, 0xF0E442};
constexpr std::uint32_t vermillion = 0xD55E00;

constexpr std::array<std::uint32_t, 10> cividis{0x00224E, 0x123570, 0x3B496C, 0x575D6D, 0x707173,
                                                0x8A8678, 0xA59C74, 0xC3B369, 0xE1CC55, 0xFEE838};

ImVec4 vec(Colour c) { return ImGui::ColorConvertU32ToFloat4(c); }

}  // namespace

Colour mix(Colour a, Colour b, double share) {
  Colour mixed = 0;
  for (unsigned shift = 0; shift < 32; shift += 8) {
    const double from = (a >> shift) & 0xFFU, to = (b >> shift) & 0xFFU;
    mixed |= static_cast<Colour>(std::lround(from + (to - from) * std::clamp(share, 0.0, 1.0))) << shift;
  }
  return mixed;
}

double contrast(Colour a, Colour b) {
  const auto luminance = [](Colour colour) {
    const auto linear = [&](unsigned shift) {
      const double share = static_cast<double>((colour >> shift) & 0xFFU) / 255;
      return share <= 0.04045 ? share / 12.92 : std::pow((share + 0.055) / 1.055, 2.4);
    };
    return 0.2126 * linear(0) + 0.7152 * linear(8) + 0.0722 * linear(16);
  };
  const auto [darker, lighter] = std::minmax({luminance(a), luminance(b)});
  return (lighter + 0.05) / (darker + 0.05);
}

Colour ink_on(Colour ground) {
  constexpr Colour black = rgb(0x000000), white = rgb(0xFFFFFF);
  return contrast(ground, black) > contrast(ground, white) ? black : white;
}

Colour Theme::hue(std::size_t i) const { return rgb(hues.at(i % hues.size())); }

Colour Theme::category(Category category) const {
  const auto style = std::ranges::find(category_styles(), category, &CategoryStyle::category);
  return rgb(dark ? style->on_dark : style->on_light);
}

std::size_t Theme::shade_index(std::uint64_t hash) { return mix_bits(hash) % shade_count; }

Colour Theme::shade_at(std::size_t i) const {
  const Colour base = hue(i);
  const std::size_t tone = i / hues.size();
  if (tone == 0) return base;
  return tone == 1 ? mix(base, ground, 0.28) : mix(base, dark ? rgb(0xFFFFFF) : rgb(0x000000), 0.22);
}

std::array<Colour, Theme::shade_count> Theme::shades() const {
  std::array<Colour, shade_count> shades{};
  for (std::size_t i = 0; i < shades.size(); ++i) shades.at(i) = shade_at(i);
  return shades;
}

Colour Theme::shade(std::uint64_t hash) const { return shade_at(shade_index(hash)); }

Colour Theme::overlay(std::size_t i) const {
  return mix(selection, alarm, std::min(0.3 * static_cast<double>(i), 0.9));
}

Colour Theme::ramp(double share) const {
  const double at = std::clamp(share, 0.0, 1.0) * static_cast<double>(cividis.size() - 1);
  const auto i = std::min(static_cast<std::size_t>(at), cividis.size() - 2);
  return mix(rgb(cividis.at(i)), rgb(cividis.at(i + 1)), at - static_cast<double>(i));
}

Theme dark_theme() {
  Theme t;
  t.dark = true;
  t.ground = rgb(0x14161A);
  t.panel = rgb(0x1B1E24);
  t.line = rgb(0x2C3039);
  t.text = rgb(0xD9DCE2);
  t.faint = rgb(0x949BA8);
  t.accent = rgb(0x56B4E9);
  t.alarm = rgb(vermillion);
  t.alarm_ink = rgb(0xF07A33);
  t.held_ink = rgb(0xE69F00);
  t.popup = rgb(0x22262D);
  t.edge = rgb(0x6B7382);
  t.segment = rgb(0x262A33);
  t.free = rgb(0x667080);
  t.rounding = rgb(0xA8ADB8);
  t.reserved = rgb(0x4A5263);
  t.held = rgb(0xE69F00);
  t.live = rgb(0x3D8FC4);
  t.selection = rgb(0xFFFFFF);
  return t;
}

Theme light_theme() {
  Theme t;
  t.dark = false;
  t.ground = rgb(0xF4F4F1);
  t.panel = rgb(0xFFFFFF);
  t.line = rgb(0xDEDED9);
  t.text = rgb(0x23262B);
  t.faint = rgb(0x5F646D);
  t.accent = rgb(0x0072B2);
  t.alarm = rgb(vermillion);
  t.alarm_ink = rgb(0xA84900);
  t.held_ink = rgb(0x8A5F00);
  t.popup = rgb(0xFFFFFF);
  t.edge = rgb(0x868C96);
  t.segment = rgb(0xDCDEE3);
  t.free = rgb(0x7D838D);
  t.rounding = rgb(0x6B7078);
  t.reserved = rgb(0xBCC3CD);
  t.held = rgb(0xE69F00);
  t.live = rgb(0x5AA9DB);
  t.selection = rgb(0x000000);
  return t;
}

void apply(const Theme& theme, float scale) {
  ImGuiStyle style;
  style.WindowPadding = {10, 8};
  style.FramePadding = {8, 4};
  style.ItemSpacing = {8, 5};
  style.CellPadding = {8, 2};
  style.WindowBorderSize = 0;
  style.ChildBorderSize = 0;
  style.PopupBorderSize = 1;
  style.FrameRounding = 4;
  style.PopupRounding = 6;
  style.WindowRounding = 6;
  style.ChildRounding = 0;
  style.TabRounding = 4;
  style.ScrollbarSize = 12;
  style.ScrollbarRounding = 6;
  theme.dark ? ImGui::StyleColorsDark(&style) : ImGui::StyleColorsLight(&style);  // what is not set below
  const auto set = [&](ImGuiCol slot, Colour colour) { style.Colors[slot] = vec(colour); };
  set(ImGuiCol_Text, theme.text);
  set(ImGuiCol_TextDisabled, theme.faint);
  set(ImGuiCol_WindowBg, theme.panel);
  set(ImGuiCol_ChildBg, with_alpha(theme.panel, 0));  // the frame starts out as panel colour
  set(ImGuiCol_PopupBg, theme.popup);
  set(ImGuiCol_TitleBg, mix(theme.panel, theme.line, 0.7));
  set(ImGuiCol_TitleBgActive, mix(theme.panel, theme.accent, 0.22));
  set(ImGuiCol_Border, theme.edge);
  set(ImGuiCol_FrameBg, mix(theme.panel, theme.line, 0.7));
  set(ImGuiCol_FrameBgHovered, theme.line);
  set(ImGuiCol_FrameBgActive, theme.line);
  set(ImGuiCol_Button, mix(theme.panel, theme.line, 0.7));
  set(ImGuiCol_ButtonHovered, mix(theme.line, theme.accent, 0.25));
  set(ImGuiCol_ButtonActive, mix(theme.line, theme.accent, 0.5));
  set(ImGuiCol_Header, mix(theme.panel, theme.accent, 0.22));
  set(ImGuiCol_HeaderHovered, mix(theme.panel, theme.accent, 0.14));
  set(ImGuiCol_HeaderActive, mix(theme.panel, theme.accent, 0.3));
  set(ImGuiCol_CheckMark, theme.accent);
  set(ImGuiCol_Separator, theme.line);
  set(ImGuiCol_ScrollbarBg, with_alpha(theme.panel, 0));
  set(ImGuiCol_ScrollbarGrab, theme.line);
  set(ImGuiCol_ScrollbarGrabHovered, theme.faint);
  set(ImGuiCol_ScrollbarGrabActive, theme.faint);
  set(ImGuiCol_TableHeaderBg, theme.panel);
  set(ImGuiCol_TableBorderStrong, theme.line);
  set(ImGuiCol_TableBorderLight, theme.line);
  set(ImGuiCol_TableRowBg, with_alpha(theme.panel, 0));
  set(ImGuiCol_TableRowBgAlt, with_alpha(theme.line, 0x30));
  set(ImGuiCol_TextSelectedBg, mix(theme.panel, theme.accent, 0.4));
  set(ImGuiCol_NavHighlight, theme.accent);
  set(ImGuiCol_ModalWindowDimBg, with_alpha(theme.ground, 0xA0));
  style.ScaleAllSizes(scale);
  ImGui::GetStyle() = style;
}

}  // namespace memreel::viewer
