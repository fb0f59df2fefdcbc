#include "tests/fuzz/commands.h"

#include <sys/mman.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <iostream>
#include <map>
#include <streambuf>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/cli/commands.h"
#include "analyzer/cli/fleet.h"
#include "analyzer/fleet/fleet.h"
#include "analyzer/fleet/map.h"
#include "analyzer/fleet/rank_file.h"
#include "analyzer/replay/replay.h"
#include "formats/wire/crc32c.h"

namespace memreel::fuzz {
namespace {

using Arguments = std::vector<std::string>;

/// Where output goes that nobody reads. It is made, so that making it is tried, too.
class Nowhere final : public std::streambuf {
 protected:
  int_type overflow(int_type c) override { return traits_type::not_eof(c); }
  std::streamsize xsputn(const char*, std::streamsize count) override { return count; }
};

/// Standard output and error go nowhere while it lives.
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

/// A file that nobody else sees.
class MemoryFile {
 public:
  explicit MemoryFile(std::span<const std::uint8_t> bytes) : descriptor_(::memfd_create("recording", MFD_CLOEXEC)) {
    for (std::size_t written = 0; written < bytes.size();) {
      const ssize_t count = ::write(descriptor_, bytes.data() + written, bytes.size() - written);
      if (count <= 0) std::abort();
      written += static_cast<std::size_t>(count);
    }
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() { ::close(descriptor_); }

  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

/// Only the one that is run: adding all of them takes longer than most of them run.
void add_command(std::string_view name, CLI::App& app, cli::Exit& exit) {
  using Add = void (*)(CLI::App&, cli::Exit&);
  static const std::map<std::string_view, Add> all{
      {"check", cli::add_check_command},   {"diff", cli::add_diff_command},       {"export", cli::add_export_command},
      {"info", cli::add_info_command},     {"predict", cli::add_predict_command}, {"replay", cli::add_replay_command},
      {"report", cli::add_report_command}, {"tune", cli::add_tune_command},       {"verify", cli::add_verify_command},
  };
  all.at(name)(app, exit);
}

const std::string sample = MEMREEL_SAMPLES "/graphs_default.reel";

/// "TRACE" stands for the recording.
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
      // What is no recording, but is read as well.
      {"check", sample, "--baseline", "TRACE"},
      {"report", sample, "--leaks", "--suppressions", "TRACE"},
      {"replay", sample, "--policy", "torch.native", "--unit-costs", "TRACE"},
  };
  for (const char* const by : {"stack", "line", "function", "module", "thread", "stream", "pool", "device"})
    all.push_back({"report", "TRACE", "--by", by});
  for (const char* const format : {"json", "markdown", "html"})
    all.push_back({"report", "TRACE", "--leaks", "--fragmentation", "--oom", "--allocations", "--format", format});
  for (const char* const format : {"csv", "jsonl", "minimalloc", "perfetto", "pprof", "speedscope"})
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

/// A job of two ranks, of which one did what the recording says; or of which one's result it is.
void judge_fleet(const std::string& path, std::span<const std::uint8_t> recording) {
  const std::string_view bytes(reinterpret_cast<const char*>(recording.data()), recording.size());
  std::vector<RankSummary> ranks;
  for (const std::string& result : {std::string(bytes), judge_recording(path, {}), judge_recording(sample, {})})
    if (Result<RankSummary> rank = decode_rank(result, "fuzz")) ranks.push_back(*std::move(rank));
  Result<Fleet> fleet = assemble_fleet(std::move(ranks), {.capacity = 1_GiB});
  if (!fleet) return;
  const cli::FleetReport report{.fleet = *std::move(fleet), .setting = {}, .skipped = {}};
  cli::print_fleet_text(report, 10, std::cout);
  cli::write_fleet_json(report, std::cout);
  cli::write_fleet_html(report, std::cout);
}

}  // namespace

std::size_t command_count() { return commands().size() + 1; }

void run_command(std::size_t which, std::span<const std::uint8_t> recording) {
  const MemoryFile file(recording);
  const Silence silence;
  if (which == commands().size()) return judge_fleet(file.path(), recording);
  Arguments arguments = commands()[which];
  for (std::string& argument : arguments)
    if (const std::size_t at = argument.find("TRACE"); at != std::string::npos) argument.replace(at, 5, file.path());
  std::vector<const char*> argv{"memreel"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  CLI::App app("memreel", "memreel");
  cli::Exit exit = cli::Exit::done;
  add_command(arguments.front(), app, exit);
  try {
    app.parse(static_cast<int>(argv.size()), argv.data());
  } catch (const CLI::ParseError&) {
    std::abort();  // none of these lines is wrong
  }
  if (static_cast<int>(exit) < 0 || static_cast<int>(exit) > 2) std::abort();
}

void run_some_command(std::span<const std::uint8_t> recording) {
  const std::string_view text(reinterpret_cast<const char*>(recording.data()), recording.size());
  run_command(wire::crc32c(text) % command_count(), recording);
}

}  // namespace memreel::fuzz
