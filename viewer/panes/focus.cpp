// SPDX-License-Identifier: Apache-2.0
#include "viewer/panes/focus.h"

#include <imgui_internal.h>  // to activate items, and for their windows

#include <algorithm>
#include <cmath>
#include <utility>

namespace memreel::viewer {
namespace {

constexpr int window_rank = 0, dialog_rank = 1, menu_rank = 2;

int rank_of(const ImGuiWindow& root) {
  if ((root.Flags & ImGuiWindowFlags_Popup) != 0) return menu_rank;
  return (root.Flags & ImGuiWindowFlags_NoBringToFrontOnFocus) != 0 ? window_rank : dialog_rank;
}

ImVec4 area_of(const ImRect& rect) { return {rect.Min.x, rect.Min.y, rect.Max.x, rect.Max.y}; }

bool contains(const ImVec4& area, ImVec2 p) { return p.x >= area.x && p.x < area.z && p.y >= area.y && p.y < area.w; }

}  // namespace

bool is_at(std::string_view pattern, std::string_view place) {
  if (pattern.empty()) return false;
  if (pattern.ends_with('*')) return place.starts_with(pattern.substr(0, pattern.size() - 1));
  return pattern.starts_with('*') ? place.ends_with(pattern.substr(1)) : place == pattern;
}

void Focus::begin_frame() {
  stops_.clear();
  part_ = 0;
  part_window_ = 0;
  begin_at_.clear();
  // An item that was activated by keys takes hovering from the mouse until it moves.
#if IMGUI_VERSION_NUM >= 19140
  ImGui::GetCurrentContext()->NavHighlightItemUnderNav = false;
#else
  ImGui::GetCurrentContext()->NavDisableMouseHover = false;
#endif
}

void Focus::add_item(const std::string& name, FocusKind kind) {
  const ImGuiID id = ImGui::GetCurrentContext()->LastItemData.ID;
  if (id == 0) return;  // a text
  add(name, kind, ImGui::GetItemRectMin(), ImGui::GetItemRectMax());
  stops_.back().id = id;
}

void Focus::add(const std::string& name, FocusKind kind, ImVec2 from, ImVec2 to) {
  ImGuiWindow& window = *ImGui::GetCurrentWindow();
  ImGuiWindow& root = *window.RootWindow;
  if (std::exchange(part_window_, window.ID) != window.ID) ++part_;
  stops_.push_back({.name = name,
                    .kind = kind,
                    .scope = root.ID,
                    .rank = rank_of(root),
                    .part = part_,
                    .area = {from.x, from.y, to.x, to.y},
                    .visible_in = area_of(window.OuterRectClipped)});
  if (!scrolls_ || kind == FocusKind::list || !on_ || root.ID != scope_ || here() != name) return;
  scrolls_ = false;
  ImGui::ScrollToRect(&window, ImRect(from, to), ImGuiScrollFlags_KeepVisibleEdgeY);
}

std::span<const FocusKey> Focus::add_list(const std::string& name, ImVec2 from, ImVec2 to) {
  add(name, FocusKind::list, from, to);
  if (!has(name)) return {};
  return keys_;
}

const std::string& Focus::here() const {
  static const std::string nowhere;
  const auto found = at_.find(scope_);
  return found == at_.end() ? nowhere : found->second;
}

const Focusable* Focus::find(std::string_view name) const {
  const auto found =
      std::ranges::find_if(last_, [&](const Focusable& stop) { return stop.scope == scope_ && stop.name == name; });
  return found == last_.end() ? nullptr : &*found;
}

const Focusable* Focus::current() const {
  if (const Focusable* const stop = find(here())) return stop;
  const Focusable* nearest = nullptr;
  std::size_t index = 0;
  for (const Focusable& stop : last_)
    if (stop.scope == scope_ && (nearest == nullptr || index <= index_)) {
      nearest = &stop;
      ++index;
    }
  return nearest;
}

const Focusable* Focus::list_to_enter() const {
  if (const Focusable* const stop = find(here()); stop != nullptr && stop->kind == FocusKind::list) return stop;
  const auto list =
      std::ranges::find_if(last_, [&](const Focusable& s) { return s.scope == scope_ && s.kind == FocusKind::list; });
  return list == last_.end() ? nullptr : &*list;
}

void Focus::move_to(const std::string& name) {
  at_[scope_] = name;
  scrolls_ = true;
  row_.reset();
  std::size_t index = 0;
  for (const Focusable& stop : last_) {
    if (stop.scope != scope_) continue;
    if (stop.name == name) index_ = index;
    ++index;
  }
}

/// Moves on to the next or previous one, which may have to be in the same part.
void Focus::step(const Focusable& from, int by, bool across_parts) {
  const Focusable* before = nullptr;
  bool is_next = false;
  for (const Focusable& stop : last_) {
    if (stop.scope != scope_ || (!across_parts && stop.part != from.part)) continue;
    if (is_next) return move_to(stop.name);
    if (&stop == &from) {
      if (by < 0) break;
      is_next = true;
    }
    before = &stop;
  }
  if (by < 0 && before != nullptr) move_to(before->name);
}

/// To the first of the next or previous part, around the end.
void Focus::step_part(const Focusable& from, int by) {
  if (rank_ != window_rank) {  // few enough to stop at each
    const std::string before = here();
    step(from, by, true);
    if (here() != before) return;
    const Focusable* last = nullptr;
    for (const Focusable& stop : last_) {
      if (stop.scope != scope_) continue;
      if (by > 0) return move_to(stop.name);
      last = &stop;
    }
    if (last != nullptr) move_to(last->name);
    return;
  }
  std::vector<const Focusable*> firsts;
  std::size_t mine = 0;
  for (const Focusable& stop : last_) {
    if (stop.scope != scope_) continue;
    if (firsts.empty() || firsts.back()->part != stop.part) firsts.push_back(&stop);
    if (&stop == &from) mine = firsts.size() - 1;
  }
  if (firsts.empty()) return;
  move_to(firsts[(mine + firsts.size() + (by > 0 ? 1 : firsts.size() - 1)) % firsts.size()]->name);
}

/// To the nearest one below or above in the same part, else to the next or previous part.
void Focus::step_down(const Focusable& from, int by) {
  const Focusable* nearest = nullptr;
  float least = 0;
  const auto middle_x = [](const Focusable& s) { return (s.area.x + s.area.z) / 2; };
  for (const Focusable& stop : last_) {
    if (stop.scope != scope_ || stop.part != from.part) continue;
    const float down = by > 0 ? stop.area.y - from.area.w : from.area.y - stop.area.w;
    if (down < -2 || &stop == &from) continue;  // pixels: neighbours may overlap
    const float aside =
        stop.area.x <= middle_x(from) && middle_x(from) < stop.area.z ? 0 : std::abs(middle_x(stop) - middle_x(from));
    const float distance = 2 * std::max(down, 0.0F) + aside;
    if (nearest == nullptr || distance < least) {
      nearest = &stop;
      least = distance;
    }
  }
  if (nearest != nullptr) return move_to(nearest->name);
  if (rank_ != menu_rank) step_part(from, by);
}

void Focus::activate(const Focusable& stop, FocusKey key) {
  if (stop.kind == FocusKind::drawn || key != FocusKey::press) {
    pressed_ = stop.name;
    pressed_key_ = key;
    return;
  }
  ImGuiContext& context = *ImGui::GetCurrentContext();
  context.NavNextActivateId = stop.id;
  context.NavNextActivateFlags = stop.kind == FocusKind::field ? ImGuiActivateFlags_PreferInput : 0;
}

/// The first key: shows where the focus is, or moves it on from where the mouse left it.
bool Focus::begin(FocusKey key) {
  const bool moves = key == FocusKey::next_part || key == FocusKey::previous_part;
  const bool enters = key == FocusKey::up || key == FocusKey::down;
  if (!moves && !enters) return false;
  const Focusable* const from = find(here());
  if (enters) {
    const Focusable* const to = rank_ != window_rank ? current() : list_to_enter();
    if (to == nullptr) return false;
    on_ = true;
    move_to(to->name);
    return true;
  }
  const Focusable* const any = current();
  if (any == nullptr) return false;
  on_ = true;
  if (from != nullptr) {
    step_part(*from, key == FocusKey::next_part ? 1 : -1);
  } else {
    const auto in_scope = [&](const Focusable& stop) { return stop.scope == scope_; };
    const Focusable& first = *std::ranges::find_if(last_, in_scope);
    move_to(first.name);
    if (key == FocusKey::previous_part) step_part(first, -1);
  }
  return true;
}

bool Focus::enter(std::string_view begins) {
  const auto first = std::ranges::find_if(
      last_, [&](const Focusable& stop) { return stop.scope == scope_ && stop.name.starts_with(begins); });
  if (first == last_.end()) return false;
  on_ = true;
  move_to(std::string(first->name));
  return true;
}

bool Focus::press(FocusKey key) {
  if (!on_) return begin(key);
  if (key == FocusKey::leave) {
    if (rank_ == window_rank) on_ = false;
    return rank_ == window_rank;
  }
  const Focusable* const stop = current();
  if (stop == nullptr) return false;
  if (stop->name != here()) move_to(stop->name);
  if (key == FocusKey::next_part || key == FocusKey::previous_part) {
    step_part(*stop, key == FocusKey::next_part ? 1 : -1);
    return true;
  }
  if (stop->kind == FocusKind::list) {
    if (key == FocusKey::space) return false;
    keys_.push_back(key);
    return true;
  }
  switch (key) {
    case FocusKey::left:
    case FocusKey::right:
      step(*stop, key == FocusKey::left ? -1 : 1, rank_ != window_rank);
      return true;
    case FocusKey::up:
    case FocusKey::down:
      step_down(*stop, key == FocusKey::up ? -1 : 1);
      return true;
    case FocusKey::home:
    case FocusKey::end: {
      const Focusable* to = nullptr;
      for (const Focusable& other : last_)
        if (other.scope == scope_ && other.part == stop->part && (to == nullptr || key == FocusKey::end)) to = &other;
      if (to != nullptr) move_to(to->name);
      return true;
    }
    case FocusKey::press:
    case FocusKey::space:
      activate(*stop, FocusKey::press);
      return true;
    case FocusKey::open:
    case FocusKey::menu:
      activate(*stop, key);
      return true;
    default:
      return false;
  }
}

void Focus::act_on(std::string name) {
  wanted_ = std::move(name);
  tried_ = 0;
}

void Focus::leave_field() {
  const ImGuiID id = ImGui::GetActiveID();
  ImGui::ClearActiveID();
  const auto field = std::ranges::find_if(last_, [&](const Focusable& stop) { return id != 0 && stop.id == id; });
  if (field == last_.end() || field->scope != scope_) return;
  on_ = true;
  move_to(field->name);
}

std::string Focus::take_missing() { return std::exchange(missing_, {}); }

/// The pointer hides the ring, and Tab goes on from what was clicked.
void Focus::follow_mouse() {
  const ImGuiIO& io = ImGui::GetIO();
  if (!io.MouseClicked[ImGuiMouseButton_Left] && !io.MouseClicked[ImGuiMouseButton_Right]) return;
  on_ = false;
  for (const Focusable& stop : last_)
    if (stop.scope == scope_ && contains(stop.area, io.MousePos)) move_to(stop.name);
  scrolls_ = false;
}

void Focus::choose_scope() {
  const ImGuiID before = scope_;
  rank_ = -1;
  for (const Focusable& stop : last_)
    if (stop.rank >= rank_) {
      rank_ = stop.rank;
      scope_ = stop.scope;
    }
  if (scope_ == before) return;
  if (rank_ != menu_rank) {
    if (find(here()) == nullptr) on_ = false;
    return;
  }
  // A menu begins anew each time.
  at_.erase(scope_);
  index_ = 0;
  if (!begin_at_.empty()) {
    move_to(begin_at_);
  } else if (const Focusable* const first = current()) {
    move_to(first->name);
  }
}

void Focus::fulfil() {
  constexpr int most_frames = 20;
  if (wanted_.empty()) return;
  const auto found = std::ranges::find_if(
      last_, [&](const Focusable& stop) { return stop.scope == scope_ && is_at(wanted_, stop.name); });
  if (found != last_.end()) {
    on_ = true;
    move_to(found->name);
    if (found->kind == FocusKind::list)
      keys_.push_back(FocusKey::menu);
    else
      activate(*found, FocusKey::press);
    wanted_.clear();
  } else if (++tried_ > most_frames) {
    missing_ = std::exchange(wanted_, {});
  }
}

void Focus::end_frame(const Theme& theme, float scale) {
  std::swap(stops_, last_);
  keys_.clear();
  pressed_.clear();
  choose_scope();
  follow_mouse();
  fulfil();
  const Focusable* const stop = on_ ? find(here()) : nullptr;
  if (stop == nullptr) return;
  const float width = std::max(2 * scale, 2.0F), halo = std::max(scale, 1.0F);
  const float grown = std::round(3 * scale), out = grown + width + halo;
  ImDrawList& list = *ImGui::GetForegroundDrawList();
  list.PushClipRect({stop->visible_in.x - out, stop->visible_in.y - out},
                    {stop->visible_in.z + out, stop->visible_in.w + out});
  // A list fills its pane, so its ring is inside.
  const float by = stop->kind == FocusKind::list ? -width / 2 : grown;
  const ImVec2 from{stop->area.x - by, stop->area.y - by}, to{stop->area.z + by, stop->area.w + by};
  const float round = stop->kind == FocusKind::list ? 0 : 4 * scale;
  const float beyond = (width + halo) / 2;  // so that it stands out from any colour
  list.AddRect({from.x - beyond, from.y - beyond}, {to.x + beyond, to.y + beyond}, theme.panel, round, 0, halo);
  list.AddRect(from, to, theme.accent, round, 0, width);
  list.PopClipRect();
}

}  // namespace memreel::viewer
