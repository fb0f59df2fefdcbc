// SPDX-License-Identifier: Apache-2.0
// Which process listens on a port of this machine.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace memreel::top {

/// "memreel-top (process 4711)"; empty if it can't be seen: it is another user's, or in another container.
std::string port_owner(std::uint16_t port);

/// The socket (inode) that listens on `port`, of a table such as /proc/net/tcp; 0 if none does.
std::uint64_t listening_socket(std::string_view table, std::uint16_t port);

}  // namespace memreel::top
