// Which processes of this machine can be asked what they hold: those with a control socket.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string_view>
#include <vector>

namespace memreel::attach {

/// What the name of a control socket says.
struct Listener {
  std::uint64_t number = 0;  // by which the process knows itself: another than ours when it is in a container
  std::uint64_t start = 0;   // when it started, in clock ticks since boot

  friend auto operator<=>(const Listener&, const Listener&) = default;
};

/// Those in a text like /proc/net/unix, each once, in order. Anybody can take a name: whoever asks finds out whose the
/// socket is.
std::vector<Listener> listeners_in(std::string_view sockets);

/// Processes with control sockets in this network namespace, by our numbers, in order.
std::vector<pid_t> listening_processes();

}  // namespace memreel::attach
