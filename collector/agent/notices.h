// What the library writes on the program's own threads: a line for its user, a line in the journal.
#pragma once

#include <csignal>
#include <string>

namespace memreel::agent {

/// While it lives, writing ends no program: not by SIGPIPE where nobody reads, nor by SIGXFSZ at the limit on the size
/// of files. Signals that writing made are taken away; those of others wait for its end.
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
