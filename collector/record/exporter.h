// SPDX-License-Identifier: Apache-2.0
// Exports metrics of a recording in progress: a companion program (memreel-top) serves them, so that scrapers reach
// neither the program nor the launcher.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "formats/model/result.h"

namespace memreel::record {

class Exporter {
 public:
  /// Starts it, and waits until the metrics can be scraped, unless the port is in use: then they can be once it is
  /// free. `target` is the argument of --openmetrics; `subject` selects the processes: {"--journal", FILE} or {PID}.
  /// Errors: what is wrong with the target, such as a host that is not this one.
  static Result<Exporter> start(const std::string& target, const std::vector<std::string>& subject);
  Exporter(Exporter&& other) noexcept;
  Exporter& operator=(Exporter&&) = delete;
  /// Ends it and waits for it: an exported file then says that nothing is being recorded.
  ~Exporter();

  /// For the user: "metrics at http://127.0.0.1:9400/metrics", or at the file; or why there are none for now.
  const std::string& says() const { return says_; }
  /// Whether there are none for now.
  bool waits() const { return waits_; }

 private:
  Exporter(pid_t process, int leash, std::string says, bool waits)
      : process_(process), leash_(leash), says_(std::move(says)), waits_(waits) {}

  pid_t process_ = 0;
  int leash_ = -1;  // its standard input: closing it ends the companion, even if we are killed
  std::string says_;
  bool waits_ = false;
};

/// The line that a companion prints first to standard output: where its metrics are, why they will be there later, or
/// why there are none.
std::string ready_line(const std::string& address);
std::string postponed_line(const Error& error);
std::string failed_line(const Error& error);

}  // namespace memreel::record
