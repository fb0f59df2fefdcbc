// SPDX-License-Identifier: Apache-2.0
// The dialog that opens a file: type a path or browse to it.
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
  /// Starts in the given folder if it exists, else in the working directory.
  void open(const std::filesystem::path& folder);
  bool is_open() const { return open_; }
  /// The chosen file, in the frame in which it was chosen.
  std::optional<std::filesystem::path> draw(Scene& scene, const Window& window);

 private:
  struct Entry {
    std::string name;
    bool is_folder = false;
  };
  void list(const std::filesystem::path& folder);
  /// Follows a typed path: lists a folder, or chooses a file.
  std::optional<std::filesystem::path> take(const std::filesystem::path& path);

  std::filesystem::path folder_;
  std::vector<Entry> entries_;
  std::string typed_, problem_;
  bool open_ = false, opening_ = false;
};

}  // namespace memreel::viewer
