// SPDX-License-Identifier: Apache-2.0
#include "viewer/app/preferences.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "formats/model/files.h"

namespace memreel::viewer {
namespace {

using Json = nlohmann::json;

std::string environment(const char* name) {
  const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nothing here changes the environment
  return value == nullptr ? std::string() : value;
}

void read_share(const Json& json, const char* name, float& share) {
  const auto found = json.find(name);
  if (found != json.end() && found->is_number()) share = std::clamp(found->get<float>(), 0.1F, 0.9F);
}

}  // namespace

std::filesystem::path settings_path() {
  if (const std::string config = environment("XDG_CONFIG_HOME"); !config.empty())
    return std::filesystem::path(config) / "memreel" / "view.json";
  if (const std::string home = environment("HOME"); !home.empty())
    return std::filesystem::path(home) / ".config" / "memreel" / "view.json";
  return {};
}

Settings load_settings(const std::filesystem::path& path) {
  Settings settings;
  const Result<std::string> text = read_whole_file(path);
  const Json json = text ? Json::parse(*text, nullptr, false) : Json();
  if (!json.is_object()) return settings;
  const auto flag = [&](const char* name, bool& value) {
    if (const auto found = json.find(name); found != json.end() && found->is_boolean()) value = found->get<bool>();
  };
  flag("dark", settings.dark);
  flag("tour_done", settings.tour_done);
  flag("verdict", settings.verdict);
  if (const auto size = json.find("text_size"); size != json.end() && size->is_number())
    settings.text_size = std::clamp(size->get<float>(), least_text_size, most_text_size);
  if (const auto order = json.find("heap_order"); order != json.end() && order->is_string())
    for (std::size_t i = 0; i < heap_order_words.size(); ++i)
      if (order->get<std::string>() == heap_order_words.at(i)) settings.heap_order = static_cast<HeapOrder>(i);
  read_share(json, "timeline_share", settings.timeline_share);
  read_share(json, "inspector_share", settings.inspector_share);
  read_share(json, "bottom_share", settings.bottom_share);
  read_share(json, "map_share", settings.map_share);
  if (const auto recent = json.find("recent"); recent != json.end() && recent->is_array())
    for (const Json& name : *recent)
      if (name.is_string() && settings.recent.size() < most_recent) settings.recent.push_back(name.get<std::string>());
  return settings;
}

void save_settings(const std::filesystem::path& path, const Settings& settings) {
  if (path.empty()) return;
  std::error_code ignored;
  std::filesystem::create_directories(path.parent_path(), ignored);
  const Json json{{"dark", settings.dark},
                  {"tour_done", settings.tour_done},
                  {"verdict", settings.verdict},
                  {"text_size", settings.text_size},
                  {"heap_order", heap_order_words.at(static_cast<std::size_t>(settings.heap_order))},
                  {"timeline_share", settings.timeline_share},
                  {"inspector_share", settings.inspector_share},
                  {"bottom_share", settings.bottom_share},
                  {"map_share", settings.map_share},
                  {"recent", settings.recent}};
  std::ofstream(path) << json.dump(2) << '\n';
}

}  // namespace memreel::viewer
