// SPDX-License-Identifier: Apache-2.0
#include "analyzer/fleet/reader_memory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "formats/model/files.h"

namespace memreel {
namespace {

namespace fs = std::filesystem;

struct Entry {
  pid_t owner = 0;
  Bytes bytes;
  bool waits = false;  // for so much; it has nothing yet
};

fs::path usual_file() {
  // Numbers of processes mean the same only in one namespace of them.
  std::error_code problem;
  std::string names = fs::read_symlink("/proc/self/ns/pid", problem).string();
  std::erase_if(names, [](char c) { return c < '0' || c > '9'; });
  const fs::path shared =
      fs::is_directory("/dev/shm", problem) ? fs::path("/dev/shm") : fs::temp_directory_path(problem);
  return shared / ("memreel-fleet-" + std::to_string(::getuid()) + "-" + names);
}

std::string read_all(int file) {
  std::string text;
  std::array<char, 4096> piece{};
  for (ssize_t count = 0; (count = ::pread(file, piece.data(), piece.size(), static_cast<off_t>(text.size()))) > 0;)
    text.append(piece.data(), static_cast<std::size_t>(count));
  return text;
}

std::vector<Entry> entries_in(const std::string& text) {
  std::vector<Entry> entries;
  std::istringstream lines(text);
  Entry entry;
  while (lines >> entry.owner >> entry.bytes.count >> entry.waits)
    if (::kill(entry.owner, 0) == 0 || errno != ESRCH) entries.push_back(entry);
  return entries;
}

std::string text_of(const std::vector<Entry>& entries) {
  std::string text;
  for (const Entry& entry : entries)
    text +=
        std::to_string(entry.owner) + " " + std::to_string(entry.bytes.count) + " " + (entry.waits ? "1" : "0") + "\n";
  return text;
}

}  // namespace

Bytes usual_reader_memory() {
  const auto pages = ::sysconf(_SC_PHYS_PAGES), page = ::sysconf(_SC_PAGESIZE);
  std::uint64_t bytes =
      pages > 0 && page > 0 ? static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page) : 0;
  for (const char* const file : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    const Result<std::string> limit = read_whole_file(file);
    std::istringstream text(limit ? *limit : std::string());
    std::uint64_t most = 0;
    if (text >> most && most > 0) bytes = bytes == 0 ? most : std::min(bytes, most);
  }
  return {bytes == 0 ? std::uint64_t{1} << 62U : bytes / 5 * 4};
}

ReaderMemory::ReaderMemory(Bytes total, fs::path file)
    : total_(total), file_(file.empty() ? usual_file() : std::move(file)) {}

template <class Change>
bool ReaderMemory::change(Change change) const {
  constexpr int most_attempts = 100;
  for (int attempt = 0; attempt < most_attempts; ++attempt) {
    const int file = ::open(file_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0) return true;
    struct stat status {};
    const bool is_ours = ::fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == ::getuid();
    bool granted = true, is_gone = false;
    if (is_ours && ::flock(file, LOCK_EX) == 0) {
      // Who had the list before may have removed it.
      is_gone = ::fstat(file, &status) == 0 && status.st_nlink == 0;
      if (!is_gone) {
        std::vector<Entry> entries = entries_in(read_all(file));
        granted = change(entries);
        const std::string text = text_of(entries);
        if (text.empty())
          ::unlink(file_.c_str());
        else if (::ftruncate(file, 0) == 0 && ::pwrite(file, text.data(), text.size(), 0) < 0)
          granted = true;
      }
    }
    ::close(file);
    if (!is_gone) return granted;
  }
  return true;
}

bool ReaderMemory::take(Bytes wanted, pid_t owner, bool must) const {
  return change([&](std::vector<Entry>& entries) {
    std::erase_if(entries, [&](const Entry& entry) { return entry.owner == owner; });
    Bytes taken;
    bool another_waits = false;
    for (const Entry& entry : entries) {
      another_waits = another_waits || entry.waits;
      if (!entry.waits) taken += entry.bytes;
    }
    const bool granted = taken == 0_B || (!(another_waits && !must) && taken + wanted <= total_);
    if (granted || must) entries.push_back({.owner = owner, .bytes = wanted, .waits = !granted});
    return granted;
  });
}

void ReaderMemory::pass_on(pid_t owner, Bytes bytes, pid_t to) const {
  change([&](std::vector<Entry>& entries) {
    std::erase_if(entries, [&](const Entry& entry) { return entry.owner == owner; });
    entries.push_back({.owner = to, .bytes = bytes});
    return true;
  });
}

void ReaderMemory::give_back(pid_t owner) const {
  change([&](std::vector<Entry>& entries) {
    std::erase_if(entries, [&](const Entry& entry) { return entry.owner == owner; });
    return true;
  });
}

}  // namespace memreel
