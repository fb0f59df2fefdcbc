// memreel's files in a program that does not know about them: it may close any open descriptor, whose number may then
// be another file's.
#pragma once

#include <sys/types.h>

#include <optional>

namespace memreel {

/// Moves `file` to a descriptor above those that programs iterate over to close files or use with select(), if the
/// system allows one. Returns its new number; negative numbers stay unchanged.
int move_up(int file);

/// Identifies what is open under a descriptor, whatever the number was used for before.
struct FileIdentity {
  dev_t device = 0;
  ino_t inode = 0;

  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};

/// None if nothing is open.
std::optional<FileIdentity> identity_of(int file);

}  // namespace memreel
