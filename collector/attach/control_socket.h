// The control socket of a program that memreel may join. It is in the abstract namespace, so it leaves no file behind;
// its name holds the process ID and start time, so a process that reuses the ID is not mistaken for the earlier one.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <string_view>

#include "collector/attach/message.h"
#include "formats/model/descriptor.h"
#include "formats/model/result.h"

namespace memreel::attach {

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

  /// Serves requests until an answer is the last, or the socket is no longer ours: a program may close files it does
  /// not know. Calls `idle` every `patience`, and returns when it returns true; 0: never calls it. Sleeps in poll() in
  /// between. A client that may not control this process (credentials.h) gets an error.
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
