// Puts metrics where Prometheus finds them, again and again, until it is told to end.
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

/// Where metrics go: to whoever asks at an address, or into a file.
using Target = std::variant<Endpoint, std::filesystem::path>;

/// ":PORT" (on the loopback), "HOST:PORT", "[ADDRESS]:PORT", or else a file. %h, %p and %r in a file's name are
/// replaced as in a trace's (options/options.h). Errors: a port that is none, or a name that is only a number.
Result<Target> parse_target(const std::string& text);

struct Export {
  Target target;
  std::chrono::milliseconds interval{1000};          // between samples
  std::function<std::vector<pid_t>()> processes;     // asked before each sample, by a thread of its own
  int end = -1;                                      // a file: it ends when that can be read
  std::function<void(const std::string&)> announce;  // told once, when the first metrics are there: where
};

/// Samples and exports until the end. A file is written whole and renamed each time, and says in the end that nothing
/// is recorded any more: who reads it knows no other sign. Errors: it can't begin.
Result<void> export_metrics(const Export& what);

}  // namespace memreel::top
