// SPDX-License-Identifier: Apache-2.0
#include "analyzer/fleet/claim.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <sstream>

#include "formats/model/files.h"

namespace memreel {
namespace {

namespace fs = std::filesystem;

std::string this_machine() {
  // Differs between machines with equal names, and not between the containers of one.
  const auto boot = read_whole_file("/proc/sys/kernel/random/boot_id");
  if (boot && !boot->empty()) return boot->substr(0, boot->find('\n'));
  std::string name(256, '\0');
  if (::gethostname(name.data(), name.size() - 1) != 0) return "?";
  return name.substr(0, name.find('\0'));
}

bool is_abandoned(const fs::path& claim, std::chrono::seconds patience) {
  struct stat status {};
  if (::stat(claim.c_str(), &status) != 0) return true;  // just done
  constexpr std::int64_t for_clocks_that_differ = 60;
  if (::time(nullptr) - status.st_mtime > patience.count() + for_clocks_that_differ) return true;
  const auto text = read_whole_file(claim);
  if (!text) return false;
  std::istringstream fields(*text);
  pid_t process = 0;
  std::string names, machine, own_names;
  // A process's number is known only among those that see the same numbers.
  std::error_code problem;
  own_names = fs::read_symlink("/proc/self/ns/pid", problem).string();
  return fields >> process >> names >> machine && machine == this_machine() && names == own_names &&
         ::kill(process, 0) != 0 && errno == ESRCH;
}

/// Makes the file, with its owner's name in it. Sets errno if it can't: EEXIST if another process has.
bool make_claim(const fs::path& file) {
  std::error_code problem;
  const std::string owner = std::to_string(::getpid()) + " " + fs::read_symlink("/proc/self/ns/pid", problem).string() +
                            " " + this_machine() + "\n";
  // Where the file system can, others see the file only with the name: a process may be killed at any time.
  const fs::path folder = file.has_parent_path() ? file.parent_path() : ".";
  if (const int unnamed = ::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0644); unnamed >= 0) {
    const bool written = ::write(unnamed, owner.data(), owner.size()) == static_cast<ssize_t>(owner.size());
    const std::string path = "/proc/self/fd/" + std::to_string(unnamed);
    const bool linked = written && ::linkat(AT_FDCWD, path.c_str(), AT_FDCWD, file.c_str(), AT_SYMLINK_FOLLOW) == 0;
    const int error = errno;
    ::close(unnamed);
    errno = error;
    if (linked || (written && error == EEXIST)) return linked;
  }
  const int opened = ::open(file.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
  if (opened < 0) return false;
  // Without its owner's name, it is abandoned once it is old.
  [[maybe_unused]] const ssize_t written = ::write(opened, owner.data(), owner.size());
  ::close(opened);
  return true;
}

}  // namespace

bool is_network_file_system(std::uint64_t type) {
  // linux/magic.h, and the sources of those that are not part of Linux.
  constexpr std::array<std::uint64_t, 14> of_networks{
      0x6969,                              // NFS
      0x517B,     0xFF534D42, 0xFE534D42,  // SMB
      0x5346414F, 0x6B414653,              // AFS
      0x0BD00BD0,                          // Lustre
      0x47504653,                          // GPFS, Spectrum Scale
      0x00C36400,                          // Ceph
      0x19830326,                          // BeeGFS
      0x01021997,                          // 9P
      0x01161970,                          // GFS2
      0x7461636F,                          // OCFS2
      0xAAD7AAEA,                          // PanFS
  };
  return std::ranges::find(of_networks, type & 0xFFFFFFFF) != of_networks.end();
}

std::string machine_of(const fs::path& file) {
  struct statfs status {};
  if (::statfs(file.c_str(), &status) == 0 && is_network_file_system(static_cast<std::uint64_t>(status.f_type)))
    return {};
  static const std::string machine = this_machine();
  return machine;
}

std::optional<Claim> Claim::take(const fs::path& file, std::chrono::seconds patience) {
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (make_claim(file)) return Claim(file);
    if (errno != EEXIST) return Claim({});
    if (!is_abandoned(file, patience)) return std::nullopt;
    ::unlink(file.c_str());
  }
  return std::nullopt;
}

Claim::~Claim() {
  if (!file_.empty()) ::unlink(file_.c_str());
}

}  // namespace memreel
