// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/fuzzed_commands.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <new>
#include <streambuf>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "analyzer/cli/fleet_report.h"
#include "analyzer/cli/program.h"
#include "analyzer/fleet/fleet.h"
#include "analyzer/fleet/map.h"
#include "analyzer/fleet/rank_summary.h"
#include "analyzer/replay/replay.h"
#include "formats/wire/framing.h"

namespace memreel::fuzz {
namespace {

using Arguments = std::vector<std::string>;

/// Discards output. The output is still formatted, so that formatting is tested too.
class Nowhere final : public std::streambuf {
 protected:
  int_type overflow(int_type c) override { return traits_type::not_eof(c); }
  std::streamsize xsputn(const char*, std::streamsize count) override { return count; }
};

/// Redirects standard output and error to nowhere during its lifetime.
class Silence {
 public:
  Silence() : out_(std::cout.rdbuf(&nowhere_)), error_(std::cerr.rdbuf(&nowhere_)) {}
  Silence(const Silence&) = delete;
  Silence& operator=(const Silence&) = delete;
  ~Silence() {
    std::cout.rdbuf(out_);
    std::cerr.rdbuf(error_);
  }

 private:
  Nowhere nowhere_;
  std::streambuf* out_;
  std::streambuf* error_;
};

const std::string sample = MEMREEL_SAMPLES "/graphs_default.reel";

/// A private file. It is created once: commands find each recording at the same path.
class MemoryFile {
 public:
  MemoryFile() : descriptor_(::memfd_create("recording", MFD_CLOEXEC)) {}
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() { ::close(descriptor_); }

  void hold(std::span<const std::uint8_t> bytes) {
    if (::ftruncate(descriptor_, 0) != 0) std::abort();
    for (std::size_t written = 0; written < bytes.size();) {
      const ssize_t count =
          ::pwrite(descriptor_, bytes.data() + written, bytes.size() - written, static_cast<off_t>(written));
      if (count <= 0) std::abort();
      written += static_cast<std::size_t>(count);
    }
  }
  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

MemoryFile& recording_file() {
  static MemoryFile file;
  return file;
}

/// A directory of this process for commands that need one; in memory, where the system has such a file system.
class OwnDirectory {
 public:
  OwnDirectory() {
    std::error_code none;
    const std::filesystem::path memory = "/dev/shm";
    path_ = (std::filesystem::is_directory(memory, none) ? memory : std::filesystem::temp_directory_path()) /
            ("memreel-fuzz-" + std::to_string(::getpid()));
    std::filesystem::create_directories(path_ / "results");
    write("results/sample.rank", judge_recording(sample, {}));
  }
  OwnDirectory(const OwnDirectory&) = delete;
  OwnDirectory& operator=(const OwnDirectory&) = delete;
  ~OwnDirectory() {
    std::error_code none;
    std::filesystem::remove_all(path_, none);
  }

  std::filesystem::path operator/(const char* name) const { return path_ / name; }
  void write(const char* name, std::string_view bytes) const {
    std::ofstream(path_ / name, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }

 private:
  std::filesystem::path path_;
};

const OwnDirectory& own_directory() {
  static const OwnDirectory directory;
  return directory;
}

/// Only the one that runs: adding all of them takes longer than most of them run.
void add_command(std::string_view name, CLI::App& app, cli::Exit& exit) {
  using Add = void (*)(CLI::App&, cli::Exit&);
  static const std::map<std::string_view, Add> all{
      {"check", cli::add_check_command},     {"diff", cli::add_diff_command},       {"export", cli::add_export_command},
      {"fleet", cli::add_fleet_command},     {"symbols", cli::add_symbols_command}, {"info", cli::add_info_command},
      {"predict", cli::add_predict_command}, {"replay", cli::add_replay_command},   {"report", cli::add_report_command},
      {"tune", cli::add_tune_command},       {"verify", cli::add_verify_command},
  };
  all.at(name)(app, exit);
}

/// "TRACE" stands for the recording, "OUT" for a file to write, "RESULTS" for a directory in which it is one of two
/// results of `fleet map`.
std::vector<Arguments> all_commands() {
  std::vector<Arguments> all{
      {"info", "TRACE"},
      {"info", "TRACE", "--json"},
      {"verify", "TRACE"},
      {"verify", "TRACE", "--json"},
      {"report", "TRACE"},
      {"report", "TRACE", "--leaks", "--fragmentation", "--oom", "--allocations"},
      {"tune", "TRACE"},
      {"tune", "TRACE", "--json"},
      {"check", "TRACE", "--max-peak", "1GiB", "--max-reserved", "2GiB", "--max-leaked", "1MiB", "--max-fragmentation",
       "0.5"},
      {"check", "TRACE", "--capacity", "1GiB", "--json"},
      {"diff", "TRACE", "@end"},
      {"diff", "TRACE", "@event:3", "--json"},
      {"diff", sample, "TRACE"},
      {"predict", "batch=1:TRACE", "batch=2:TRACE", "--to", "batch=8"},
      {"predict", "batch=1:" + sample, "batch=2:TRACE", "--capacity", "1GiB", "--json"},
      {"tune", "TRACE", "--what-if", "empty_cache@step"},
      {"symbols", "TRACE", "-o", "OUT"},
      {"fleet", "merge", "RESULTS", "--no-setting"},
      {"fleet", "merge", "RESULTS", "--no-setting", "--capacity", "1GiB", "--json"},
      // Input that is not a recording but is also read.
      {"check", sample, "--baseline", "TRACE"},
      {"report", sample, "--leaks", "--suppressions", "TRACE"},
      {"replay", sample, "--policy", "torch.native", "--unit-costs", "TRACE"},
  };
  for (const char* const by : {"stack", "line", "function", "module", "thread", "stream", "pool", "device"})
    all.push_back({"report", "TRACE", "--by", by});
  for (const char* const format : {"json", "markdown", "html"})
    all.push_back({"report", "TRACE", "--leaks", "--fragmentation", "--oom", "--allocations", "--format", format});
  for (const char* const format :
       {"csv", "jsonl", "minimalloc", "perfetto", "pprof", "speedscope", "torch", "firefox", "dhat", "heaptrack"})
    all.push_back({"export", "TRACE", "--format", format});
  for (const PolicyInfo& policy : policies()) {
    all.push_back({"replay", "TRACE", "--policy", std::string(policy.name)});
    all.push_back({"replay", "TRACE", "--policy", std::string(policy.name), "--capacity", "1GiB", "--json"});
  }
  return all;
}

const std::vector<Arguments>& commands() {
  static const std::vector<Arguments> all = all_commands();
  return all;
}

/// A command line that runs repeatedly: describing a command's options takes longer than most commands run.
class CommandLine {
 public:
  explicit CommandLine(Arguments arguments) : arguments_(std::move(arguments)), app_("memreel", "memreel") {
    for (std::string& argument : arguments_) {
      if (const std::size_t at = argument.find("TRACE"); at != std::string::npos)
        argument.replace(at, 5, recording_file().path());
      if (argument == "OUT") argument = (own_directory() / "named.reel").string();
      reads_results_ = reads_results_ || argument == "RESULTS";
      if (argument == "RESULTS") argument = (own_directory() / "results").string();
    }
    add_command(arguments_.front(), app_, exit_);
  }
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;
  ~CommandLine() = default;

  cli::Exit run(std::span<const std::uint8_t> recording) {
    if (reads_results_)
      own_directory().write("results/fuzz.rank", {reinterpret_cast<const char*>(recording.data()), recording.size()});
    std::vector<const char*> argv{"memreel"};
    for (const std::string& argument : arguments_) argv.push_back(argument.c_str());
    exit_ = cli::Exit::done;
    rlimit memory{};  // a command lowers it for the rest of its process, which has more commands to run here
    ::getrlimit(RLIMIT_DATA, &memory);
    try {
      app_.parse(static_cast<int>(argv.size()), argv.data());
    } catch (const CLI::ParseError&) {
      std::abort();  // none of these lines is invalid
    } catch (const std::bad_alloc&) {
      exit_ = cli::Exit::unusable;  // as main() has it
    }
    ::setrlimit(RLIMIT_DATA, &memory);
    return exit_;
  }

 private:
  Arguments arguments_;
  CLI::App app_;
  cli::Exit exit_ = cli::Exit::done;
  bool reads_results_ = false;
};

CommandLine& command_line(std::size_t which) {
  static std::vector<std::unique_ptr<CommandLine>> lines(commands().size());
  if (!lines[which]) lines[which] = std::make_unique<CommandLine>(commands()[which]);
  return *lines[which];
}

/// A job of two ranks, one of which did what the recording says.
void judge_fleet(const std::string& path) {
  static const std::string other = judge_recording(sample, {});
  std::vector<RankSummary> ranks;
  for (const std::string& result : {judge_recording(path, {}), other})
    if (Result<RankSummary> rank = decode_rank(result, "fuzz")) ranks.push_back(*std::move(rank));
  Result<std::vector<Fleet>> jobs = assemble_jobs(std::move(ranks), {.capacity = 1_GiB});
  if (!jobs) return;
  std::vector<cli::FleetReport> reports;
  for (Fleet& fleet : *jobs) reports.push_back({.fleet = std::move(fleet), .setting = {}, .skipped = {}});
  cli::print_fleet_text(reports, 10, std::cout);
  cli::write_fleet_json(reports, std::cout);
  cli::write_fleet_html(reports.front(), std::cout);
}

/// The commands to choose from, several times where they are quick: a prediction takes as long as twenty of the others.
/// For a result of `fleet map`, a protobuf message whose first field is a number, only the commands that read one.
std::vector<std::size_t> choice(bool of_results) {
  std::vector<std::size_t> all;
  for (std::size_t which = 0; which <= commands().size(); ++which) {
    const bool is_fleet = which == commands().size();
    const std::string name = is_fleet ? "" : commands()[which].front();
    if (of_results && name == "fleet") all.push_back(which);
    if (!of_results && name != "fleet") all.insert(all.end(), name == "predict" || is_fleet ? 1 : 4, which);
  }
  return all;
}

}  // namespace

std::size_t command_count() { return commands().size() + 1; }

void run_command(std::size_t which, std::span<const std::uint8_t> recording) {
  recording_file().hold(recording);
  const Silence silence;
  if (which == commands().size()) return judge_fleet(recording_file().path());
  const cli::Exit exit = command_line(which).run(recording);
  if (static_cast<int>(exit) < 0 || static_cast<int>(exit) > 2) std::abort();
}

void run_some_command(std::span<const std::uint8_t> recording) {
  static const std::vector<std::size_t> any = choice(false), of_results = choice(true);
  const std::string_view text(reinterpret_cast<const char*>(recording.data()), recording.size());
  constexpr char first_field = 0x08;
  const std::vector<std::size_t>& from = text.starts_with(first_field) ? of_results : any;
  run_command(from[wire::crc32c(text) % from.size()], recording);
}

}  // namespace memreel::fuzz
