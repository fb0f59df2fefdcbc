// SPDX-License-Identifier: Apache-2.0
// memreel-record: runs a program with the agent loaded. `memreel record` runs this program.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <memory>
#include <span>

#include "collector/options/options.h"
#include "collector/record/child.h"
#include "collector/record/collector_command.h"
#include "collector/record/launch.h"
#include "collector/record/summary.h"
#include "formats/model/printable.h"
#include "formats/model/result.h"
#include "formats/writer/trace_writer.h"
#include "memreel/version.h"

namespace memreel::record {
namespace {

struct Request {
  agent::Options options;
  std::string output;  // empty: the default
  bool bundle_symbols = false;
  bool quiet = false;
  std::string metrics;   // the metrics' target; empty: none
  std::string document;  // the JSON document's file; empty: none
  std::vector<std::string> program;
};

std::optional<std::string> variable(const char* name) {
  const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): this process has one thread
  if (value == nullptr) return std::nullopt;
  return value;
}

/// Everything after the first argument that is neither an option nor an option's value belongs to the program.
void describe(CLI::App& app, Request& request) {
  agent::Options& options = request.options;
  app.prefix_command();
  app.set_version_flag("--version", "memreel " + std::string(version));
  app.add_option("-o,--output", request.output,
                 "Trace file; %p is the process id, %h the host, %r the rank (RANK, OMPI_COMM_WORLD_RANK, PMI_RANK, "
                 "SLURM_PROCID) [memreel-%h-%p.reel]");
  add_recording_options(app, options);
  app.add_option("--libcupti", options.libcupti, "libcupti to load [the one that matches the program's CUDA]");
  app.add_flag("--dormant", options.dormant, "Record nothing until memreel attach starts the recording");
  app.add_flag("--bundle-symbols", request.bundle_symbols,
               "Add symbol names of native frames to the trace, so that it can be read on another machine");
  app.add_option("--openmetrics", request.metrics,
                 "Export metrics for Prometheus while recording: :PORT (on loopback), HOST:PORT or FILE; %r as in -o");
  app.add_flag("-q,--quiet", request.quiet, "Print no summary");
  app.add_option("--json", request.document,
                 "Write one JSON document (memreel.record/1) to this file; standard output is the program's");
  app.footer(
      "Records the GPU memory use of PROGRAM and the processes it starts. Each process writes its own trace.\n"
      "The program's output, exit code and signals pass through. Existing files are never overwritten: the trace "
      "gets a numbered name instead.\n\n"
      "Examples:\n"
      "  memreel record python train.py --epochs 1\n"
      "  memreel record -o run.reel -- ./solver --size 4096\n"
      "  memreel record -o trace-%r.reel -- torchrun --nproc-per-node 4 train.py\n"
      "  memreel record --when-full block --depth 128 ./solver\n"
      "  memreel record --dormant -- python serve.py\n"
      "  memreel record --flight 256MiB --when 95% -- python train.py\n"
      "  memreel record --openmetrics :9400 -- python train.py\n\n"
      "Exit code: the program's, or death by the signal that killed it; 2 if it could not be started.");
}

constexpr std::string_view journal_prefix = "memreel-journal-";

/// Removes the journals of recordings that were killed: ours, which nobody has locked.
void remove_left_journals(const std::filesystem::path& folder) {
  constexpr std::time_t soon = 60;  // seconds after which a recording has certainly locked its own
  std::error_code problem;
  std::filesystem::directory_iterator entry(folder, problem);
  for (; !problem && entry != std::filesystem::directory_iterator(); entry.increment(problem)) {
    if (!entry->path().filename().native().starts_with(journal_prefix)) continue;
    const int file = ::open(entry->path().c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0) continue;
    struct stat status {};
    if (::fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == ::geteuid() &&
        status.st_mtime + soon < std::time(nullptr) && ::flock(file, LOCK_EX | LOCK_NB) == 0)
      ::unlink(entry->path().c_str());
    ::close(file);
  }
}

/// The file through which the agent reports to us; removed by the destructor, or by a later recording.
class Journal {
 public:
  Journal() {
    std::error_code problem;
    for (const std::filesystem::path& folder :
         {std::filesystem::temp_directory_path(problem), std::filesystem::path("/tmp"),
          std::filesystem::current_path(problem)}) {
      if (folder.empty()) continue;  // TMPDIR may be anything
      remove_left_journals(folder);
      std::string pattern = (folder / journal_prefix).string() + "XXXXXX";
      file_ = ::mkostemp(pattern.data(), O_CLOEXEC);
      if (file_ < 0) continue;
      ::flock(file_, LOCK_EX | LOCK_NB);
      path_ = pattern;
      return;
    }
  }
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;
  ~Journal() {
    if (file_ < 0) return;
    ::unlink(path_.c_str());
    ::close(file_);
  }
  /// Empty if it could not be created: the recording works without it.
  const std::string& path() const { return path_; }

 private:
  int file_ = -1;
  std::string path_;
};

/// Errors: two of the files that are to be written are one. Of a recorded process that is not started yet, neither the
/// process ID nor perhaps the rank is known, so spares_traces() looks again.
Result<void> outputs_differ(const Request& request) {
  const std::filesystem::path metrics = request.metrics.empty() ? "" : metrics_file(request.metrics);
  const std::string trace = agent::trace_name(request.options.output, agent::process_names());
  return must_differ({}, std::array<std::filesystem::path, 3>{trace, request.document, metrics});
}

/// Errors: the document would replace what was recorded meanwhile.
Result<void> spares_traces(const std::filesystem::path& document, const std::vector<agent::JournalEntry>& journal) {
  std::vector<std::filesystem::path> recorded;
  for (const agent::JournalEntry& entry : journal) {
    if (entry.what != agent::JournalEntry::What::began) continue;
    recorded.emplace_back(entry.trace);
    for (std::string& dump : dumps_of(entry.trace)) recorded.emplace_back(std::move(dump));
  }
  if (must_differ(recorded, std::array{document})) return {};
  return Error{.what = "is a trace of this recording, so the document of --json is not written there",
               .where = document.string(),
               .remedy = "give --json another name"};
}

/// The document's sink, opened before the program runs. Null if no document was requested.
Result<std::unique_ptr<ByteSink>> document_sink(const std::string& file) {
  if (file.empty()) return std::unique_ptr<ByteSink>();
  // If the user forgot the file, this is the program's name instead.
  if (std::error_code problem; std::filesystem::is_regular_file(file, problem) && ::access(file.c_str(), X_OK) == 0)
    return Error{.what = "is a program; --json takes the file to write the document to",
                 .where = file,
                 .remedy = "memreel record --json FILE -- PROGRAM ARGUMENTS"};
  return atomic_file_sink(file);
}

Result<void> write_document(ByteSink& sink, const Json& document) {
  const std::string text = document_text(document);
  if (Result<void> written = sink.write(std::as_bytes(std::span(text))); !written) return written;
  return sink.close();
}

/// For killed programs: removes the second trace that a flight recorder had started next to the one it keeps.
void remove_unfinished(const std::vector<agent::JournalEntry>& journal) {
  std::error_code ignored;
  for (const agent::JournalEntry& entry : journal)
    if (entry.what == agent::JournalEntry::What::began) std::filesystem::remove(entry.trace + ".next", ignored);
}

Result<Ending> record(Request& request) {
  auto executable = find_executable(request.program.front(), variable("PATH").value_or("/usr/local/bin:/usr/bin:/bin"));
  if (!executable) return std::move(executable).error();
  auto agent = find_agent();
  if (!agent) return std::move(agent).error();
  auto output = output_pattern(request.output.empty() ? request.options.output : request.output);
  if (!output) return std::move(output).error();
  request.options.output = *std::move(output);

  if (const auto differ = outputs_differ(request); !differ) return differ.error();
  const auto document = document_sink(request.document);
  if (!document) return document.error();

  const Journal journal;
  request.options.journal = journal.path();
  const Injection injection = injection_of(*agent, request.options, variable);
  for (const std::string& note : injection.notes) say("memreel: note: " + printable(note) + "\n");
  if (const std::string why = explanation_of(*executable); !why.empty()) say("memreel: note: " + why + "\n");

  std::optional<Exporter> exporter;
  if (!request.metrics.empty()) {
    auto started = Exporter::start(request.metrics, {"--journal", journal.path()});
    if (!started) return std::move(started).error();
    exporter.emplace(*std::move(started));
    if (!request.quiet || exporter->waits()) say("memreel: " + exporter->says() + "\n");
  }

  const ErrorLog error_log;
  auto ending =
      run_command({.program = executable->path, .arguments = request.program, .variables = injection.variables});
  exporter.reset();
  if (!ending) return ending;
  const std::vector<agent::JournalEntry> entries = read_journal(journal.path());
  if (request.options.flight.size != 0_B) remove_unfinished(entries);
  if (request.bundle_symbols) {
    // The exit code is the program's: missing symbol names don't change it.
    if (const auto bundled = bundle_symbols(entries); !bundled) fail(bundled.error());
  }
  if (*document) {
    const Json json = record_document(request.program.front(), *ending, entries);
    auto written = spares_traces(request.document, entries);
    if (written) written = write_document(**document, json);
    if (!written) fail(written.error());
  }
  if (!request.quiet) say(summary_of(request.program.front(), *ending, entries, error_log, request.options.dormant));
  return ending;
}

int run(int argc, char** argv) {
  Request request;
  CLI::App app("Run a program and record its GPU memory use: memreel record [OPTIONS] [--] PROGRAM [ARGUMENTS...]",
               "memreel record");
  describe(app, request);
  if (const auto code = parse(app, "record", argc, argv)) return *code;
  request.program = app.remaining();
  if (!request.program.empty() && request.program.front() == "--") {
    request.program.erase(request.program.begin());
  } else if (!request.program.empty() && request.program.front().starts_with('-')) {
    return fail({.what = "unknown option " + request.program.front(), .remedy = "see memreel record --help"});
  }
  if (request.program.empty())
    return fail({.what = "no program to record", .remedy = "memreel record [OPTIONS] -- PROGRAM ARGUMENTS"});

  const auto ending = record(request);
  if (!ending) return fail(ending.error());
  std::fflush(nullptr);
  end_as(*ending);
}

}  // namespace
}  // namespace memreel::record

int main(int argc, char** argv) { return memreel::record::guarded("record", memreel::record::run, argc, argv); }
