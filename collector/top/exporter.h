// Repeatedly publishes metrics for Prometheus until told to end.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "collector/top/scrape_server.h"
#include "formats/model/result.h"

namespace memreel::top {

/// Where metrics go: an HTTP address, or a file.
using Target = std::variant<Endpoint, std::filesystem::path>;

/// ":PORT" (on the loopback), "HOST:PORT", "[ADDRESS]:PORT", or else a file. %h, %p and %r in a file name are replaced
/// as in a trace name (options/options.h). Errors: an invalid port, or a name that is only a number.
Result<Target> parse_target(const std::string& text);

struct Export {
  Target target;
  std::chrono::milliseconds interval{1000};          // between samples
  std::function<std::vector<pid_t>()> processes;     // called before each sample, on its own thread
  int end = -1;                                      // a file descriptor: ends when it becomes readable
  std::function<void(const std::string&)> announce;  // called once, with the address, when metrics are available
};

/// Samples and exports until told to end. A file is written whole and renamed each time; the last version says that
/// nothing is being recorded, as its readers have no other way to know. Errors: it can't begin.
Result<void> export_metrics(const Export& what);

}  // namespace memreel::top
