// SPDX-License-Identifier: Apache-2.0
#include "collector/top/port_owner.h"

#include <charconv>
#include <filesystem>
#include <sstream>
#include <system_error>

#include "collector/attach/process.h"
#include "formats/model/files.h"

namespace memreel::top {
namespace {

namespace fs = std::filesystem;

bool has_socket(pid_t process, const std::string& link) {
  std::error_code problem;
  for (auto at = fs::directory_iterator("/proc/" + std::to_string(process) + "/fd", problem);
       !problem && at != fs::directory_iterator(); at.increment(problem)) {
    std::error_code closed_meanwhile;
    if (fs::read_symlink(at->path(), closed_meanwhile) == link) return true;
  }
  return false;
}

}  // namespace

std::uint64_t listening_socket(std::string_view table, std::uint16_t port) {
  std::istringstream lines{std::string(table)};
  std::string line;
  std::getline(lines, line);  // titles
  while (std::getline(lines, line)) {
    std::istringstream fields(line);
    std::string number, local, remote, state, queues, timer, retransmits, user, timeout;
    std::uint64_t socket = 0;
    fields >> number >> local >> remote >> state >> queues >> timer >> retransmits >> user >> timeout >> socket;
    const std::string digits = local.substr(local.rfind(':') + 1);
    std::uint16_t of_line = 0;
    const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), of_line, 16);
    const bool listens = state == "0A";
    if (fields && listens && problem == std::errc() && of_line == port) return socket;
  }
  return 0;
}

std::string port_owner(std::uint16_t port) {
  for (const char* const file : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    const Result<std::string> table = read_whole_file(file);
    const std::uint64_t socket = table ? listening_socket(*table, port) : 0;
    if (socket == 0) continue;
    const std::string link = "socket:[" + std::to_string(socket) + "]";
    for (const pid_t process : attach::all_processes())
      if (has_socket(process, link))
        return attach::command_name(process) + " (process " + std::to_string(process) + ")";
  }
  return {};
}

}  // namespace memreel::top
