// What the agent writes on the program's own threads: messages for the user, and journal lines.
#pragma once

#include <csignal>
#include <string>

namespace memreel::agent {

/// While it lives, writing can't kill the program: neither SIGPIPE when the reader is gone, nor SIGXFSZ at the file
/// size limit. Discards signals that the writes caused; signals from elsewhere stay pending until it is destroyed.
class HarmlessWrites {
 public:
  HarmlessWrites();
  HarmlessWrites(const HarmlessWrites&) = delete;
  HarmlessWrites& operator=(const HarmlessWrites&) = delete;
  ~HarmlessWrites();

 private:
  sigset_t made_{}, before_{};
};

/// One line on standard error, prefixed "memreel: ".
void say(const std::string& text);

}  // namespace memreel::agent
