#include "collector/attach/listeners.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>

#include "collector/attach/control_socket.h"
#include "collector/attach/process.h"
#include "formats/model/whole_file.h"

namespace memreel::attach {
namespace {

std::optional<Listener> listener_of(std::string_view name) {
  // An abstract name begins with a zero byte, which is shown as @.
  const std::string prefix = "@" + std::string(control_socket_prefix) + "-";
  if (!name.starts_with(prefix)) return std::nullopt;
  Listener listener;
  const char* const end = name.data() + name.size();
  const auto number = std::from_chars(name.data() + prefix.size(), end, listener.number);
  if (number.ec != std::errc() || number.ptr == end || *number.ptr != '-') return std::nullopt;
  const auto start = std::from_chars(number.ptr + 1, end, listener.start);
  if (start.ec != std::errc() || start.ptr != end) return std::nullopt;
  return listener;
}

bool is(pid_t process, const Listener& listener) {
  return start_time(process) == listener.start && number_in_own_namespace(process) == listener.number;
}

}  // namespace

std::vector<Listener> listeners_in(std::string_view sockets) {
  std::vector<Listener> found;
  while (!sockets.empty()) {
    const std::string_view line = sockets.substr(0, sockets.find('\n'));
    sockets.remove_prefix(std::min(sockets.size(), line.size() + 1));
    if (const auto listener = listener_of(line.substr(line.rfind(' ') + 1))) found.push_back(*listener);
  }
  std::ranges::sort(found);
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

std::vector<pid_t> listening_processes() {
  const Result<std::string> sockets = read_whole_file("/proc/net/unix");
  if (!sockets) return {};
  std::vector<pid_t> processes;
  std::vector<Listener> elsewhere;  // in containers
  for (const Listener& listener : listeners_in(*sockets)) {
    const auto number = static_cast<pid_t>(listener.number);
    if (is(number, listener))
      processes.push_back(number);
    else
      elsewhere.push_back(listener);
  }
  if (!elsewhere.empty())
    for (const pid_t process : all_processes())
      if (std::ranges::any_of(elsewhere, [&](const Listener& listener) { return is(process, listener); }))
        processes.push_back(process);
  std::ranges::sort(processes);
  processes.erase(std::unique(processes.begin(), processes.end()), processes.end());
  return processes;
}

}  // namespace memreel::attach
