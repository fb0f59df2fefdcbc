// SPDX-License-Identifier: Apache-2.0
// What memreel-record, memreel-attach and memreel-top share as commands of memreel.
#pragma once

#include <sys/types.h>
#include <nlohmann/json.hpp>

#include <vector>

#include "collector/options/journal.h"
#include "collector/record/child.h"
#include "collector/record/summary.h"
#include "formats/command_line/combinations.h"
#include "formats/command_line/option_values.h"
#include "formats/command_line/output_files.h"
#include "formats/command_line/parse_errors.h"
#include "formats/model/result.h"

namespace CLI {  // NOLINT(readability-identifier-naming): its own name
class App;
}

namespace memreel::record {

/// Writes to standard error, verbatim.
void say(std::string_view text);

/// One line on standard error. Returns exit_unusable.
int fail(const Error& error);

/// Seconds that a command may be told to wait.
inline constexpr Range<double> waits{.least = 0.1, .most = 3600};

/// Parses the arguments of a program that `memreel NAME` runs as `memreel-... NAME ARGUMENTS...`; NAME may be missing.
/// Returns the exit code if there is nothing left to do: --help, --version, or an error, which it prints.
std::optional<int> parse(CLI::App& app, std::string_view name, int argc, char** argv);

/// Runs the command `name`. This project's functions don't throw, but libraries may: exceptions are printed as errors.
int guarded(std::string_view name, int (*command)(int, char**), int argc, char** argv);

// The JSON documents of `memreel record`, `attach` and `detach` (docs/schema).

using Json = nlohmann::ordered_json;

/// The document as written to a file: indented, with a trailing newline. Replaces invalid UTF-8.
std::string document_text(const Json& document);

/// `recorded_trace` of docs/schema/common.json.
Json json_of(const RecordedTrace& trace);

/// memreel.record/1. `program` is its name as the user typed it. Reads every trace.
Json record_document(const std::string& program, const Ending& ending, const std::vector<agent::JournalEntry>& journal);

// Exports metrics of a recording in progress: a companion program (memreel-top) serves them, so that scrapers reach
// neither the program nor the launcher.

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

/// The file that --openmetrics names; empty: an address. %h, %p and %r are replaced as in a trace name
/// (options/options.h).
std::filesystem::path metrics_file(const std::string& target);

/// The line that a companion prints first to standard output: where its metrics are, why they will be there later, or
/// why there are none.
std::string ready_line(const std::string& address);
std::string postponed_line(const Error& error);
std::string failed_line(const Error& error);

}  // namespace memreel::record
