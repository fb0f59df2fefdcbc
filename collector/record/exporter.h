// Metrics of a recording while it is made: a companion (program memreel-top) that serves them, so that who scrapes them
// reaches neither the program nor whoever runs it.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "formats/model/result.h"

namespace memreel::record {

class Exporter {
 public:
  /// Starts it, and waits until the metrics can be scraped. `target` is the argument of --openmetrics; `subject` says
  /// whose metrics: {"--journal", FILE} or {PID}. Errors: what is wrong with the target, such as a port in use.
  static Result<Exporter> start(const std::string& target, const std::vector<std::string>& subject);
  Exporter(Exporter&& other) noexcept;
  Exporter& operator=(Exporter&&) = delete;
  /// Ends it, and waits for that: a file then says that nothing is recorded any more.
  ~Exporter();

  /// "http://127.0.0.1:9400/metrics", or the file.
  const std::string& address() const { return address_; }

 private:
  Exporter(pid_t process, int leash, std::string address)
      : process_(process), leash_(leash), address_(std::move(address)) {}

  pid_t process_ = 0;
  int leash_ = -1;  // its input, which it follows to its end: also when we are killed
  std::string address_;
};

/// What a companion says once, on its standard output: where its metrics are, or why there are none.
std::string ready_line(const std::string& address);
std::string failed_line(const Error& error);

}  // namespace memreel::record
