// Asks for a file: a path that is typed, or found by clicks.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "viewer/app/window.h"
#include "viewer/panes/scene.h"

namespace memreel::viewer {

class OpenDialog {
 public:
  /// In a folder that is there; else where the program was started.
  void open(const std::filesystem::path& folder);
  bool is_open() const { return open_; }
  /// The file that was chosen, in the frame that it was.
  std::optional<std::filesystem::path> draw(Scene& scene, const Window& window);

 private:
  struct Entry {
    std::string name;
    bool is_folder = false;
  };
  void list(const std::filesystem::path& folder);
  /// What a typed path leads to: a folder that is listed then, or a file.
  std::optional<std::filesystem::path> take(const std::filesystem::path& path);

  std::filesystem::path folder_;
  std::vector<Entry> entries_;
  std::string typed_, problem_;
  bool open_ = false, opening_ = false;
};

}  // namespace memreel::viewer
