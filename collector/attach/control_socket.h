// SPDX-License-Identifier: Apache-2.0
// The control socket of a program that memreel may join. It is in the abstract namespace, so it leaves no file behind;
// its name holds the process ID and start time, so a process that reuses the ID is not mistaken for the earlier one.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <functional>
#include <span>
#include <vector>

#include "formats/model/files.h"
#include "formats/model/result.h"

namespace memreel::attach {

// The protocol between `memreel attach` and the agent in a program: one request and one response per connection.
//
// A message is a sequence of strings, each terminated by a zero byte: the protocol version, a word, and "NAME=VALUE"
// fields. Requests: "start" (fields: the variables of options/options.h), "stop", "status", "dump", "holders".
// Responses: "ok" with result fields (listed in agent/agent.h), or "error" with `what`, `where` and `remedy`. Unknown
// fields are ignored.

/// The maximum size of a message, in bytes; larger ones are refused.
inline constexpr std::size_t largest_message = 64U << 10U;

struct Message {
  std::string word;
  std::vector<std::pair<std::string, std::string>> fields;

  /// The value of the first field with this name; empty if there is none.
  std::string_view operator[](std::string_view name) const;
  /// The same, as a number; 0 if it is not one.
  std::uint64_t number(std::string_view name) const;

  friend bool operator==(const Message&, const Message&) = default;
};

/// Zero bytes inside strings would end them: no field contains any.
std::string to_bytes(const Message& message);

/// Errors: another version, which the error names; or not a message.
Result<Message> parse_message(std::span<const char> bytes);

Message error_message(const Error& error);
/// The error in an "error" response.
Error error_of(const Message& answer);

// Who may control this process. A program may hold rights that the requesting user lacks: root temporarily acting as
// another user, a setuid program. And whoever controls the agent makes the program open files.

/// Whether the kernel started this process with more rights than its user has: setuid, setgid or file capabilities. Its
/// environment then comes from that user and must not be trusted.
bool has_raised_privileges();

/// Root may always control a process. Another user may if all user IDs of the process (real, effective and saved) are
/// theirs, no ID has changed since the agent was loaded, and they may trace the process. Errors: why not.
Result<void> check_controller(uid_t user);

/// Prefix of control socket names; "-PROCESS-START" follows, with the process ID in the process's own namespace.
inline constexpr std::string_view control_socket_prefix = "memreel-control";

struct Answer {
  Message message;
  bool last = false;  // stop listening after this answer
};

/// The program's end of the socket.
class ControlSocket {
 public:
  constexpr ControlSocket() = default;
  ControlSocket(const ControlSocket&) = delete;
  ControlSocket& operator=(const ControlSocket&) = delete;
  ~ControlSocket() = default;  // run() closes it, as does a forked child

  /// Binds this process's name. False if the name is taken (another thread already listens), if the system refuses, or
  /// in a process with raised privileges.
  bool open();

  /// Also call this in a forked child, which inherits the parent's socket: otherwise the name would outlive the parent.
  void close();

  /// Wakes the thread in run(), which then asks `idle`. Nobody can connect any more.
  void hang_up();

  /// Serves requests until an answer is the last, or the socket is no longer ours: a program may close files it does
  /// not know. Calls `idle` every `patience`, and returns when it returns true; 0: never calls it. Sleeps in poll() in
  /// between. A client that may not control this process (may_control()) gets an error.
  void run(const std::function<Answer(const Message&)>& answer, std::chrono::milliseconds patience,
           const std::function<bool()>& idle);

 private:
  bool serve(int connection, const std::function<Answer(const Message&)>& answer);
  bool is_open() const { return file_.load() >= 0; }
  bool is_ours() const;

  std::atomic<int> file_ = -1;
  FileIdentity identity_;
};

/// Sends a request to a process and waits for the answer, at most `limit` in all. If nobody listens there, the answer
/// is none and `reached` is false. An "error" answer becomes the result's error.
struct Reply {
  bool reached = false;
  Result<Message> answer = Message{};
};
Reply ask(pid_t process, const Message& question, std::chrono::milliseconds limit);

}  // namespace memreel::attach
