// SPDX-License-Identifier: Apache-2.0
// The dialog that opens a file, or the folder of a job: type a path or browse to it.
#pragma once

#include <filesystem>

#include "viewer/app/window.h"
#include "viewer/panes/scene.h"

namespace memreel::viewer {

class OpenDialog {
 public:
  /// Starts in the given folder if it exists, else in the working directory.
  void open(const std::filesystem::path& folder);
  bool is_open() const { return open_; }
  /// The chosen file or folder, in the frame in which it was chosen.
  std::optional<std::filesystem::path> draw(Scene& scene, const Window& window);

 private:
  struct Entry {
    std::string name;
    bool is_folder = false;
    std::optional<bool> readable;  // whether memreel reads it; none: not yet looked at
  };
  void list(const std::filesystem::path& folder);
  /// Looks at more entries, for a few milliseconds.
  void look();
  bool is_shown(const Entry& entry) const;
  /// Draws the entries; the one that was chosen.
  std::optional<std::filesystem::path> draw_entries(Scene& scene, const Window& window, bool in_path, bool entered);
  /// Follows a typed path: lists a folder, or chooses a file.
  std::optional<std::filesystem::path> take(const std::filesystem::path& path);

  std::filesystem::path folder_;
  std::vector<Entry> entries_;
  std::size_t looked_at_ = 0;   // of entries_
  std::size_t recordings_ = 0;  // among these
  bool all_files_ = false;
  std::optional<std::size_t> row_;  // the keyboard's, of what is shown
  std::string typed_, problem_;
  bool open_ = false, opening_ = false;
};

}  // namespace memreel::viewer
