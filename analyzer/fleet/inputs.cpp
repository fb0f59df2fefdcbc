#include "analyzer/fleet/inputs.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>
#include <system_error>
#include <utility>

#include "formats/import/import.h"

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
    const bool closed =
        at->is_directory(problem) && (at->is_symlink(problem) || access(at->path().c_str(), R_OK | X_OK) != 0);
    if (closed) inputs.skipped.push_back(at->path());
    if (!at->is_regular_file(problem)) continue;
    const bool recording = is_named_like_one(at->path()) || is_recognised(at->path());
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

}  // namespace memreel
