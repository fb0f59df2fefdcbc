// SPDX-License-Identifier: Apache-2.0
// The panes' layout: all of them with one list below, or one alone; and the space for each. In a window without room
// for all, some panes are tabs beside the lists.
#pragma once

#include <array>
#include <filesystem>
#include <functional>
#include <span>

#include "viewer/model/space.h"
#include "viewer/panes/scene.h"

namespace memreel::viewer {

// Settings that persist between runs.

inline constexpr float least_share = 0.12F, most_share = 0.8F;  // of a pane, of the window
inline constexpr float least_text_size = 0.6F, most_text_size = 3;
inline constexpr std::size_t most_recent = 10;  // files

struct Settings {
  bool dark = true;
  float timeline_share = 0.30F, inspector_share = 0.27F, bottom_share = 0.32F, map_share = 0.58F;
  float text_size = 1;  // relative to the screen's default
  bool tour_done = false;
  bool verdict = true;  // whether the verdict strip is shown
  HeapOrder heap_order = HeapOrder::address;
  std::vector<std::string> recent;  // files, the latest first
};

/// $XDG_CONFIG_HOME/memreel/view.json, or below ~/.config; empty without a home.
std::filesystem::path settings_path();
/// Missing or unreadable settings have their defaults.
Settings load_settings(const std::filesystem::path& path);
/// Silently does nothing if the file can't be written.
void save_settings(const std::filesystem::path& path, const Settings& settings);

/// The tabs of the lower half, by the names that `--pane` takes.
inline constexpr std::array<std::string_view, 16> tab_names{
    "allocations", "stacks", "flame",   "segments", "leaks", "fragmentation", "oom",   "policies",
    "compare",     "pools",  "holders", "devices",  "tags",  "heaps",         "ranks", "prediction"};
/// Panes that are always visible.
inline constexpr std::array<std::string_view, 5> fixed_names{"verdict", "timeline", "map", "heap", "inspector"};

bool is_tab(std::string_view pane);

struct Tab {
  std::string_view name;
  std::uint64_t alarms = 0;  // count shown beside its name
};

/// The contents to lay out.
struct PaneContents {
  std::vector<Tab> tabs;
  std::function<void(std::string_view)> draw;  // draws a pane or a tab's content by name
  float verdict_height = 0;
  std::function<void()> draw_verdict_strip;
  std::function<void(std::string_view)> draw_beside_tabs;  // for the current tab
};

class Layout {
 public:
  /// Makes one pane fill the window; "": none.
  void maximise(std::string_view pane);
  void show_tab(std::string_view name);
  const std::string& maximised() const { return maximised_; }
  /// The open tab: a list, or a pane that has no room elsewhere.
  const std::string& tab() const { return opened_.empty() ? tab_ : opened_; }
  /// The panes that are tabs, for want of room.
  std::span<const std::string_view> folded() const { return moved_; }

  /// `settings`: pane sizes, which the user may change.
  void draw(Scene& scene, Settings& settings, const PaneContents& contents);

 private:
  void draw_pane(Scene& scene, std::string_view name, ImVec2 size, const std::function<void()>& contents);
  /// Decides which panes have room in `all`.
  void make_room(const Scene& scene, ImVec2 all);
  bool has_room(std::string_view pane) const;
  void draw_panes(Scene& scene, Settings& settings, const PaneContents& contents);
  void draw_lists(Scene& scene, const PaneContents& contents);
  /// Opens a tab, or a pane that is one.
  void open(std::string_view name);
  bool is_open(std::string_view name) const { return name == tab(); }
  /// The names of those that do not fit into `width`.
  std::vector<std::string_view> folded_tabs(std::span<const Tab> tabs, float width, float gap) const;
  /// A menu with them.
  void draw_folded(Scene& scene, std::span<const Tab> tabs, std::span<const std::string_view> folded,
                   const std::string& more);

  std::string tab_{tab_names[0]};
  std::vector<std::string_view> moved_;  // of fixed_names
  std::string opened_;                   // one of them; empty: the list is open
  std::string maximised_;
  std::optional<std::string> wanted_maximised_;  // applied in the next frame
};

}  // namespace memreel::viewer
