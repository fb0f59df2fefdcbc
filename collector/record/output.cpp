// SPDX-License-Identifier: Apache-2.0
#include "collector/record/output.h"

#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <filesystem>
#include <map>
#include <optional>
#include <string_view>
#include <system_error>
#include <tuple>

#include "collector/record/child.h"
#include "collector/record/executable.h"
#include "formats/reader/trace_reader.h"

namespace memreel::record {

Result<std::string> output_pattern(const std::string& given) {
  std::error_code problem;
  const std::filesystem::path path = std::filesystem::absolute(given, problem);
  if (problem) return Error{.what = problem.message(), .where = given};
  if (std::filesystem::is_directory(path, problem))
    return Error{.what = "is a directory", .where = given, .remedy = "give -o a file name"};
  const std::filesystem::path directory = path.parent_path();
  if (directory.string().find('%') != std::string::npos) return path.string();
  std::filesystem::create_directory(directory, problem);  // for -o 'job/%r.reel'; not its parents: they may be misspelt
  if (::access(directory.c_str(), W_OK | X_OK) != 0 || !std::filesystem::is_directory(directory, problem)) {
    const int reason = std::filesystem::exists(directory, problem) && errno == 0 ? ENOTDIR : errno;
    return Error{.what = "can't write a trace here: " + std::generic_category().message(reason),
                 .where = directory.string(),
                 .remedy = "choose another file with -o"};
  }
  return path.string();
}

namespace {

/// 3 for "run-dump-3.reel" next to "run.reel".
std::optional<unsigned> dump_number(const std::filesystem::path& trace, const std::string& name) {
  const std::string before = trace.stem().string() + "-dump-", after = trace.extension().string();
  if (!name.starts_with(before) || !name.ends_with(after)) return std::nullopt;
  const char* const end = name.data() + name.size() - after.size();
  unsigned number = 0;
  const auto [at, problem] = std::from_chars(name.data() + before.size(), end, number);
  return problem == std::errc{} && at == end ? std::optional(number) : std::nullopt;
}

using Recording = std::tuple<std::string, std::uint64_t, Nanoseconds>;

std::optional<Recording> recording_of(const std::filesystem::path& trace) {
  auto file = open_file(trace);
  if (!file) return std::nullopt;
  const auto reader = TraceReader::open(*std::move(file), trace.string());
  if (!reader) return std::nullopt;
  return Recording{reader->header().host, reader->header().process, reader->header().start};
}

}  // namespace

std::vector<std::string> dumps_of(const std::filesystem::path& trace) {
  const auto recording = recording_of(trace);
  if (!recording) return {};
  std::map<unsigned, std::string> dumps;
  std::error_code problem;
  for (const auto& entry : std::filesystem::directory_iterator(trace.parent_path(), problem)) {
    const auto number = dump_number(trace, entry.path().filename().string());
    if (number && entry.is_regular_file(problem) && recording_of(entry.path()) == recording)
      dumps.emplace(*number, entry.path().string());
  }
  std::vector<std::string> paths;
  for (auto& [number, path] : dumps) paths.push_back(std::move(path));
  return paths;
}

Result<void> bundle_symbols(std::span<const agent::JournalEntry> journal) {
  const std::filesystem::path memreel = sibling("memreel");
  for (const agent::JournalEntry& entry : journal) {
    if (entry.what != agent::JournalEntry::What::ended || entry.trace.empty()) continue;
    const auto ending =
        run_command({.program = memreel, .arguments = {"memreel", "symbols", "--quiet", entry.trace}, .variables = {}});
    if (!ending) return ending.error();
  }
  return {};
}

}  // namespace memreel::record
