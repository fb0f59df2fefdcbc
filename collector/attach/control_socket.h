// The socket at which a program that memreel may join is reached: of the abstract namespace, so that nothing is left in
// any directory, and named after the process and the moment it started, so that a process that took over a number is
// not mistaken for the one before.
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

/// How the names of control sockets begin; "-PROCESS-START" in the process's own numbers follows.
inline constexpr std::string_view control_socket_prefix = "memreel-control";

struct Answer {
  Message message;
  bool last = false;  // nobody is listened to any more
};

/// The program's end.
class ControlSocket {
 public:
  constexpr ControlSocket() = default;
  ControlSocket(const ControlSocket&) = delete;
  ControlSocket& operator=(const ControlSocket&) = delete;
  ~ControlSocket() = default;  // closing is run()'s, and a forked child's

  /// Takes this process's name. False when it is taken, which means somebody listens already, when the system refuses,
  /// or in a process with raised privileges.
  bool open();

  /// Also in a forked child, which has its parent's socket too: the name would outlive the parent.
  void close();

  /// Answers questions until one says that it was the last, or the socket is not ours any more: a program may close
  /// files that it does not know. `idle` is asked every `patience`, and ends it by true; 0: never asked.
  /// Sleeps in poll() meanwhile. Whoever may not control this process (credentials.h) gets an error for an answer.
  void run(const std::function<Answer(const Message&)>& answer, std::chrono::milliseconds patience,
           const std::function<bool()>& idle);

 private:
  bool serve(int connection, const std::function<Answer(const Message&)>& answer);
  bool is_open() const { return file_.load() >= 0; }
  bool is_ours() const;

  std::atomic<int> file_ = -1;
  FileIdentity identity_;
};

/// Asks a process and waits for its answer, at most `limit` in all. None when nobody listens there: `reached` is then
/// false.
/// An answer of "error" is the result's error.
struct Reply {
  bool reached = false;
  Result<Message> answer = Message{};
};
Reply ask(pid_t process, const Message& question, std::chrono::milliseconds limit);

}  // namespace memreel::attach
