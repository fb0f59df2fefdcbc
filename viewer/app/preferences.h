// SPDX-License-Identifier: Apache-2.0
// Settings that persist between runs.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "viewer/model/space.h"

namespace memreel::viewer {

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

}  // namespace memreel::viewer
