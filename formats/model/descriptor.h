// Files of ours in a program that does not know of them: it may close whatever is open, and then the number is another
// file's.
#pragma once

#include <sys/types.h>

#include <optional>

namespace memreel {

/// Gives `file` a number above those that programs count through when they close files or use select(), if the system
/// allows one. Returns the number that it has from now on; negative numbers stay as they are.
int move_up(int file);

/// What is open under a number, whatever else that was used for.
struct FileIdentity {
  dev_t device = 0;
  ino_t inode = 0;

  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};

/// None when nothing is.
std::optional<FileIdentity> identity_of(int file);

}  // namespace memreel
