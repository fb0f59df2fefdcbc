// SPDX-License-Identifier: Apache-2.0
// The program memreel-top, which asks the recorded processes of this machine again and again, beside this one.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "formats/model/result.h"
#include "viewer/terminal/recorded.h"

namespace memreel::viewer::terminal {

class Feed {
 public:
  /// Starts it with these arguments, and waits for its first answer. `wake` is called on another thread at each. Null:
  /// it ended without one, and has said why. Errors: it can't be started.
  static Result<std::unique_ptr<Feed>> open(std::vector<std::string> arguments, std::function<void()> wake);
  Feed(const Feed&) = delete;
  Feed& operator=(const Feed&) = delete;
  /// Ends it.
  ~Feed();

  /// Null: it has ended.
  std::shared_ptr<const Recorded> latest() const;

 private:
  Feed(pid_t process, int input, int output, std::function<void()> wake);
  /// A line; false at the end.
  bool read_line(const std::stop_token& stop, std::string& line);
  void read(const std::stop_token& stop);

  pid_t process_;
  int input_, output_;
  std::function<void()> wake_;
  std::string unread_;
  mutable std::mutex mutex_;
  std::shared_ptr<const Recorded> latest_;
  std::jthread reader_;  // last member: it uses the others
};

}  // namespace memreel::viewer::terminal
