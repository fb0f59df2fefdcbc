// What is remembered from one start to the next.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace memreel::viewer {

inline constexpr float least_text_size = 0.6F, most_text_size = 3;

struct Settings {
  bool dark = true;
  float timeline_share = 0.30F, inspector_share = 0.27F, bottom_share = 0.32F, map_share = 0.58F;
  float text_size = 1;  // times what the screen says
  bool tour_done = false;
  bool verdict = true;              // the strip with the verdict is shown
  std::vector<std::string> recent;  // files, the latest first
};

/// $XDG_CONFIG_HOME/memreel/view.json, or below ~/.config; empty without a home.
std::filesystem::path settings_path();
/// What is missing or can't be read has its default.
Settings load_settings(const std::filesystem::path& path);
/// Quietly does nothing where it may not write.
void save_settings(const std::filesystem::path& path, const Settings& settings);

}  // namespace memreel::viewer
