#include "formats/model/descriptor.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace memreel {

int move_up(int file) {
  for (const int lowest : {1000, 100}) {
    const int moved = ::fcntl(file, F_DUPFD_CLOEXEC, lowest);
    if (moved < 0) continue;
    ::close(file);
    return moved;
  }
  return file;
}

std::optional<FileIdentity> identity_of(int file) {
  struct stat status {};
  if (::fstat(file, &status) != 0) return std::nullopt;
  return FileIdentity{.device = status.st_dev, .inode = status.st_ino};
}

}  // namespace memreel
