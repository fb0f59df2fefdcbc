// The processes on this machine that have a control socket and can be queried.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string_view>
#include <vector>

namespace memreel::attach {

/// The contents of a control socket's name.
struct Listener {
  std::uint64_t number = 0;  // the process ID in its own namespace, which differs from ours in a container
  std::uint64_t start = 0;   // when it started, in clock ticks since boot

  friend auto operator<=>(const Listener&, const Listener&) = default;
};

/// The control sockets in a text like /proc/net/unix, without duplicates, sorted. Any process can claim a name: verify
/// the socket's owner before trusting it.
std::vector<Listener> listeners_in(std::string_view sockets);

/// Processes with control sockets in this network namespace, by process ID in our namespace, sorted.
std::vector<pid_t> listening_processes();

}  // namespace memreel::attach
