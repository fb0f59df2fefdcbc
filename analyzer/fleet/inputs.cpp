// SPDX-License-Identifier: Apache-2.0
#include "analyzer/fleet/inputs.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <string_view>
#include <system_error>
#include <utility>

#include "formats/import/import.h"
#include "formats/model/launchers.h"

namespace memreel {
namespace {

namespace fs = std::filesystem;

bool is_decimal(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

/// Recordings keep their names even when damaged beyond recognition.
bool is_named_like_one(const fs::path& file) {
  const std::string name = file.filename().string();
  constexpr std::array<std::string_view, 4> extensions{".reel", ".pickle", ".pkl", ".xplane.pb"};
  return std::ranges::any_of(extensions, [&](std::string_view e) { return name.find(e) != std::string::npos; });
}

Result<void> add_directory(const fs::path& directory, FleetInputs& inputs) {
  std::error_code problem;
  for (auto at = fs::recursive_directory_iterator(directory, fs::directory_options::skip_permission_denied, problem);
       !problem && at != fs::recursive_directory_iterator(); at.increment(problem)) {
    std::error_code gone;
    const bool is_directory = at->is_directory(gone);
    if (!at->is_regular_file(gone)) {
      const bool is_entered = is_directory && !at->is_symlink(gone) && access(at->path().c_str(), R_OK | X_OK) == 0;
      if (is_entered) continue;
      inputs.unread.push_back(at->path());
      inputs.skipped.push_back(at->path());
      continue;
    }
    // Files of /proc have no size, and reading some of them never ends.
    const bool has_content = at->file_size(gone) > 0;
    const bool recording = is_named_like_one(at->path()) || (has_content && is_recognised(at->path()));
    (recording ? inputs.files : inputs.skipped).push_back(at->path());
  }
  if (problem) return Error{.what = problem.message(), .where = directory.string()};
  return {};
}

}  // namespace

bool natural_less(std::string_view a, std::string_view b) {
  std::size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (!is_decimal(a[i]) || !is_decimal(b[j])) {
      if (a[i] != b[j]) return a[i] < b[j];
      ++i;
      ++j;
      continue;
    }
    const auto number = [](std::string_view text, std::size_t& at) {
      while (at < text.size() && text[at] == '0') ++at;
      const std::size_t begin = at;
      while (at < text.size() && is_decimal(text[at])) ++at;
      return text.substr(begin, at - begin);
    };
    const std::string_view x = number(a, i), y = number(b, j);
    if (x.size() != y.size()) return x.size() < y.size();
    if (x != y) return x < y;
  }
  if (a.size() - i != b.size() - j) return a.size() - i < b.size() - j;
  return a < b;
}

Result<FleetInputs> find_inputs(std::span<const fs::path> named) {
  FleetInputs inputs;
  for (const fs::path& path : named) {
    std::error_code problem;
    const fs::path absolute = fs::absolute(path, problem).lexically_normal();
    if (!fs::exists(absolute, problem))
      return Error{.what = "does not exist", .where = path.string(), .remedy = "name files or directories"};
    if (!fs::is_directory(absolute, problem)) {
      inputs.files.push_back(absolute);
    } else if (auto added = add_directory(absolute, inputs); !added) {
      return std::move(added).error();
    }
  }
  std::ranges::sort(inputs.files,
                    [](const fs::path& a, const fs::path& b) { return natural_less(a.native(), b.native()); });
  inputs.files.erase(std::unique(inputs.files.begin(), inputs.files.end()), inputs.files.end());
  if (inputs.files.empty())
    return Error{.what = "no recordings there",
                 .where = named.empty() ? "" : named.front().string(),
                 .remedy = "record them with: memreel record -o 'job/%r.reel' -- torchrun ..."};
  return inputs;
}

std::uint64_t file_bytes(const fs::path& file) {
  std::error_code problem;
  const std::uintmax_t size = fs::file_size(file, problem);
  return problem ? 0 : size;
}

void sort_by_size(std::vector<fs::path>& files) {
  std::vector<std::pair<std::uintmax_t, fs::path>> sized;
  for (fs::path& file : files) {
    std::error_code problem;
    const std::uintmax_t size = fs::file_size(file, problem);
    sized.emplace_back(problem ? 0 : size, std::move(file));
  }
  std::ranges::sort(
      sized, [](const auto& a, const auto& b) { return a.first != b.first ? a.first > b.first : a.second < b.second; });
  for (std::size_t i = 0; i < files.size(); ++i) files[i] = std::move(sized[i].second);
}

std::vector<fs::path> files_of_shard(std::vector<fs::path> files, std::uint32_t shard, std::uint32_t count) {
  sort_by_size(files);
  std::vector<fs::path> own;
  for (std::size_t i = shard; i < files.size(); i += count) own.push_back(std::move(files[i]));
  return own;
}

namespace {

constexpr std::uint32_t most_shards = 1U << 20U;

std::optional<std::uint32_t> number_in(std::string_view text) {
  std::uint32_t number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || problem != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

Result<Shard> shard_from(const std::string& index, const std::string& count, const char* index_name,
                         const char* count_name) {
  const auto i = number_in(index), n = number_in(count);
  if (i && n && *i < *n && *n <= most_shards) return Shard{.index = *i, .count = *n, .from = index_name};
  return Error{.what = std::string(index_name) + "=" + index + " and " + count_name + "=" + count +
                       " do not name a part such as 0 of 8",
               .remedy = "name the part: --shard 0/8"};
}

/// Slurm numbers an array from SLURM_ARRAY_TASK_MIN.
Result<std::optional<Shard>> array_of(const Environment& environment) {
  const auto id = environment("SLURM_ARRAY_TASK_ID"), count = environment("SLURM_ARRAY_TASK_COUNT");
  if (!id || !count) return std::optional<Shard>{};
  const auto first = number_in(environment("SLURM_ARRAY_TASK_MIN").value_or("0"));
  const auto step = number_in(environment("SLURM_ARRAY_TASK_STEP").value_or("1"));
  const auto at = number_in(*id);
  const bool fine = first && step && at && *step > 0 && *at >= *first;
  Result<Shard> shard = shard_from(fine ? std::to_string((*at - *first) / *step) : *id, *count, "SLURM_ARRAY_TASK_ID",
                                   "SLURM_ARRAY_TASK_COUNT");
  if (!shard) return std::move(shard).error();
  return std::optional(*std::move(shard));
}

/// The shard of a launcher's process, if there are several.
Result<std::optional<Shard>> process_of(const Environment& environment) {
  for (const Launcher& launcher : launchers) {
    if (launcher.world_size == nullptr || !may_have_started(launcher, environment)) continue;
    const auto index = environment(launcher.rank), count = environment(launcher.world_size);
    if (!index || !count) continue;
    Result<Shard> shard = shard_from(*index, *count, launcher.rank, launcher.world_size);
    if (!shard) return std::move(shard).error();
    if (shard->count > 1) return std::optional(*std::move(shard));
  }
  return std::optional<Shard>{};
}

}  // namespace

Result<Shard> parse_shard(std::string_view text) {
  const std::size_t slash = text.find('/');
  const auto index = number_in(text.substr(0, slash));
  const auto count = slash == std::string_view::npos ? std::nullopt : number_in(text.substr(slash + 1));
  if (index && count && *index < *count && *count <= most_shards)
    return Shard{.index = *index, .count = *count, .from = "--shard"};
  return Error{.what = "'" + std::string(text) + "' is not a part such as 0/8",
               .where = "--shard",
               .remedy = "0/8 is the first of eight parts, 7/8 the last"};
}

Result<Shard> shard_of(const Environment& environment) {
  const Result<std::optional<Shard>> array = array_of(environment), process = process_of(environment);
  if (!array) return array.error();
  if (!process) return process.error();
  if (*array && *process) {
    const std::uint64_t count = std::uint64_t{(*array)->count} * (*process)->count;
    if (count > most_shards) return Error{.what = "more than a million parts of a job"};
    return Shard{.index = (*array)->index * (*process)->count + (*process)->index,
                 .count = static_cast<std::uint32_t>(count),
                 .from = (*array)->from + ", " + (*process)->from};
  }
  if (*array) return **array;
  if (*process) return **process;
  return Shard{};
}

}  // namespace memreel
