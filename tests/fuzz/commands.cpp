#include "tests/fuzz/commands.h"

#include <sys/mman.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <iostream>
#include <streambuf>
#include <string>
#include <vector>

#include "analyzer/cli/commands.h"
#include "analyzer/replay/replay.h"

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
      {"diff", "TRACE", "@end"},
      {"diff", "TRACE", "@event:3", "--json"},
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

}  // namespace

std::size_t command_count() { return commands().size(); }

void run_command(std::size_t which, std::span<const std::uint8_t> recording) {
  const MemoryFile file(recording);
  Arguments arguments = commands()[which];
  for (std::string& argument : arguments)
    if (argument == "TRACE") argument = file.path();
  std::vector<const char*> argv{"memreel"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  const Silence silence;
  CLI::App app("memreel", "memreel");
  cli::Exit exit = cli::Exit::done;
  cli::add_commands(app, exit);
  try {
    app.parse(static_cast<int>(argv.size()), argv.data());
  } catch (const CLI::ParseError&) {
    std::abort();  // none of these lines is wrong
  }
  if (static_cast<int>(exit) < 0 || static_cast<int>(exit) > 2) std::abort();
}

}  // namespace memreel::fuzz
