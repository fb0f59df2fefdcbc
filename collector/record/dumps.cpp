#include "collector/record/dumps.h"

#include <charconv>
#include <map>
#include <optional>
#include <string_view>
#include <system_error>
#include <tuple>

#include "formats/reader/trace_reader.h"

namespace memreel::record {
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

}  // namespace memreel::record
