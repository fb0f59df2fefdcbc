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
  /// Starts it, and waits until the metrics can be scraped. `target` is the argument of --openmetrics; `subject`
  /// selects the processes: {"--journal", FILE} or {PID}. Errors: what is wrong with the target, such as a port in use.
  static Result<Exporter> start(const std::string& target, const std::vector<std::string>& subject);
  Exporter(Exporter&& other) noexcept;
  Exporter& operator=(Exporter&&) = delete;
  /// Ends it and waits for it: an exported file then says that nothing is being recorded.
  ~Exporter();

  /// "http://127.0.0.1:9400/metrics", or the file.
  const std::string& address() const { return address_; }

 private:
  Exporter(pid_t process, int leash, std::string address)
      : process_(process), leash_(leash), address_(std::move(address)) {}

  pid_t process_ = 0;
  int leash_ = -1;  // its standard input: closing it ends the companion, even if we are killed
  std::string address_;
};

/// The line that a companion prints once to standard output: where its metrics are, or why there are none.
std::string ready_line(const std::string& address);
std::string failed_line(const Error& error);

}  // namespace memreel::record
