// SPDX-License-Identifier: Apache-2.0
#include "analyzer/fleet/inputs.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <ctime>
#include <map>
#include <set>
#include <system_error>

#include "formats/import/import.h"
#include "formats/model/launchers.h"
#include "formats/model/quantity.h"

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

std::optional<dev_t> file_system_of(const fs::path& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 ? std::optional(status.st_dev) : std::nullopt;
}

/// `most_entries`: as in recordings_in(); none: all, on other file systems, too. Returns whether that was enough.
Result<bool> add_directory(const fs::path& directory, FleetInputs& inputs,
                           std::optional<std::size_t> most_entries = std::nullopt) {
  std::error_code problem;
  const auto own_file_system = file_system_of(directory);
  std::size_t entries = 0;
  for (auto at = fs::recursive_directory_iterator(directory, fs::directory_options::skip_permission_denied, problem);
       !problem && at != fs::recursive_directory_iterator(); at.increment(problem)) {
    std::error_code gone;
    if (most_entries && ++entries > *most_entries) return false;
    const bool is_directory = at->is_directory(gone);
    if (most_entries && is_directory && file_system_of(at->path()) != own_file_system) {
      at.disable_recursion_pending();
      continue;
    }
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
  return true;
}

void sort_naturally(std::vector<fs::path>& files) {
  std::ranges::sort(files, [](const fs::path& a, const fs::path& b) { return natural_less(a.native(), b.native()); });
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
  if (const Result<void> may = may_have_children(); !may) return may.error();
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
  sort_naturally(inputs.files);
  inputs.files.erase(std::unique(inputs.files.begin(), inputs.files.end()), inputs.files.end());
  if (inputs.files.empty())
    return Error{.what = "no recordings there",
                 .where = named.empty() ? "" : named.front().string(),
                 .remedy = "record them with: memreel record -o 'job/%r.reel' -- torchrun ..."};
  return inputs;
}

Result<std::optional<std::vector<fs::path>>> recordings_in(const fs::path& directory, std::size_t most_entries) {
  if (const Result<void> may = may_have_children(); !may) return may.error();
  FleetInputs inputs;
  const Result<bool> all = add_directory(directory, inputs, most_entries);
  if (!all) return all.error();
  if (!*all) return std::optional<std::vector<fs::path>>();
  sort_naturally(inputs.files);
  return std::optional(std::move(inputs.files));
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
  const auto number = parse_integer(text);
  if (!number || *number > most_shards) return std::nullopt;
  return static_cast<std::uint32_t>(*number);
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

namespace {

Result<std::optional<Bytes>> size_of(const std::string& text, const char* option,
                                     Result<Bytes> (*parse)(std::string_view) = parse_bytes) {
  if (text.empty()) return std::optional<Bytes>{};
  Result<Bytes> size = parse(text);
  if (size) return std::optional(*size);
  size.error().where = option;
  return std::move(size).error();
}

}  // namespace

Result<FleetQuestion> parse_question(const FleetWords& words) {
  FleetQuestion question;
  question.fleet.world_size = words.world_size;
  question.fleet.job = words.job;
  question.map.heap = question.fleet.heap = words.heap;
  if (!words.mesh.empty()) {
    Result<Mesh> mesh = Mesh::parse(words.mesh);
    if (!mesh) return std::move(mesh).error();
    question.fleet.mesh = *std::move(mesh);
  }
  const Result<std::optional<Bytes>> capacity = size_of(words.capacity, "--capacity", parse_device_size);
  if (!capacity) return capacity.error();
  question.fleet.capacity = *capacity;
  if (!words.rank_pattern.empty()) {
    Result<RankPattern> pattern = RankPattern::parse(words.rank_pattern);
    if (!pattern) return std::move(pattern).error();
    question.map.pattern = question.fleet.pattern = *std::move(pattern);
  }
  const Result<std::optional<Bytes>> memory = size_of(words.memory_limit, "--memory-limit");
  if (!memory) return memory.error();
  if (*memory) question.map.limits.memory = **memory;
  const Result<std::optional<Bytes>> of_host = size_of(words.host_memory, "--host-memory");
  if (!of_host) return of_host.error();
  if (*of_host) question.map.limits.of_host = **of_host;
  if (words.time_limit > 0) question.map.limits.time = std::chrono::seconds(words.time_limit);
  return question;
}

// Which of the recordings in a directory are of one job.

namespace {

struct Job {
  std::string name;  // empty: the only one
  std::vector<RankSummary> summaries;
};
using Jobs = std::map<std::string, std::vector<RankSummary>>;

/// Ranks from a pattern, and for recordings that don't state one, from names; unless names contradict what others
/// state.
void find_ranks(std::vector<RankSummary>& summaries, const RankPattern& pattern) {
  std::vector<std::filesystem::path> files;
  for (RankSummary& s : summaries) {
    files.emplace_back(s.file);
    const auto named = pattern.rank_of(s.file);
    if (!named || named == s.identity.rank) continue;
    s.identity.rank = named;
    s.identity.world_size = s.identity.local_rank = std::nullopt;
  }
  if (pattern.is_given()) return;
  const auto named = ranks_in_names(files);
  for (std::size_t i = 0; i < files.size(); ++i)
    if (named[i] && summaries[i].identity.rank && *named[i] != *summaries[i].identity.rank) return;
  for (std::size_t i = 0; i < files.size(); ++i)
    if (!summaries[i].identity.rank) summaries[i].identity.rank = named[i];
}

/// Not in braces, of which a map is a copy.
Jobs one_job(std::vector<RankSummary> summaries) {
  Jobs jobs;
  jobs.emplace("", std::move(summaries));
  return jobs;
}

std::string directory_of(const RankSummary& s) { return std::filesystem::path(s.file).parent_path().string(); }

/// A recording that states no job, such as a snapshot or what is left of a damaged file, is of the job of its
/// directory; if there are several, of the one that lacks its rank; else of the largest.
std::string job_for(const RankSummary& s, const Jobs& jobs) {
  std::vector<std::string> there, lacking;
  std::string largest;
  std::size_t most = 0;
  for (const auto& [name, summaries] : jobs) {
    bool in_directory = false, has_rank = false;
    for (const RankSummary& other : summaries) {
      in_directory = in_directory || directory_of(other) == directory_of(s);
      has_rank = has_rank || (other.identity.rank == s.identity.rank && other.usable());
    }
    if (in_directory) there.push_back(name);
    if (in_directory && s.identity.rank && !has_rank) lacking.push_back(name);
    if (summaries.size() > most) {
      most = summaries.size();
      largest = name;
    }
  }
  if (there.size() == 1) return there.front();
  return lacking.size() == 1 ? lacking.front() : largest;
}

/// Adds recordings to the jobs that they are of.
void place(std::vector<RankSummary> unknown, Jobs& jobs) {
  std::vector<std::string> names;
  names.reserve(unknown.size());
  for (const RankSummary& s : unknown) names.push_back(job_for(s, jobs));
  for (std::size_t i = 0; i < unknown.size(); ++i) jobs[names[i]].push_back(std::move(unknown[i]));
}

Jobs by_id(std::vector<RankSummary> summaries) {
  Jobs jobs;
  std::vector<RankSummary> unknown;
  for (RankSummary& s : summaries) {
    std::vector<RankSummary>& job = s.identity.job.empty() ? unknown : jobs[s.identity.job];
    job.push_back(std::move(s));
  }
  if (jobs.empty()) return one_job(std::move(unknown));
  if (jobs.size() == 1) {
    std::ranges::move(unknown, std::back_inserter(jobs.begin()->second));
    return jobs;
  }
  place(std::move(unknown), jobs);
  return jobs;
}

/// Whether two processes of one rank held memory at the same time.
bool has_two_of_a_rank(const std::vector<const RankSummary*>& summaries) {
  std::map<std::uint32_t, std::vector<const RankSummary*>> of_rank;
  for (const RankSummary* const s : summaries) {
    if (!s->identity.rank || !s->held_memory()) continue;
    std::vector<const RankSummary*>& others = of_rank[*s->identity.rank];
    if (std::ranges::any_of(others, [&](const RankSummary* other) { return are_two_processes(*s, *other); }))
      return true;
    others.push_back(s);
  }
  return false;
}

/// Whether processes that were told different world sizes ran at the same time. After each other, a job was resized.
bool has_two_worlds(const std::vector<RankSummary>& summaries) {
  std::map<std::uint32_t, std::pair<Nanoseconds, Nanoseconds>> spans;
  for (const RankSummary& s : summaries) {
    if (!s.identity.world_size || !s.held_memory()) continue;
    auto& [begin, end] = spans.try_emplace(*s.identity.world_size, s.begin, s.end).first->second;
    begin = std::min(begin, s.begin);
    end = std::max(end, s.end);
  }
  std::optional<Nanoseconds> last;
  std::vector<std::pair<Nanoseconds, Nanoseconds>> sorted;
  for (const auto& [world, span] : spans) sorted.push_back(span);
  std::ranges::sort(sorted);
  for (const auto& [begin, end] : sorted) {
    if (last && begin < *last) return true;
    last = std::max(last.value_or(end), end);
  }
  return false;
}

std::string started(const RankSummary& s) {
  const std::time_t seconds = std::chrono::duration_cast<std::chrono::seconds>(s.begin).count();
  std::tm time{};
  gmtime_r(&seconds, &time);
  std::string text(32, ' ');
  text.resize(std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &time));
  return text;
}

using Parts = std::map<std::string, std::vector<const RankSummary*>>;

std::set<std::uint32_t> worlds_of(const std::vector<const RankSummary*>& summaries) {
  std::set<std::uint32_t> worlds;
  for (const RankSummary* const s : summaries)
    if (s->identity.world_size) worlds.insert(*s->identity.world_size);
  return worlds;
}

/// What tells jobs apart also tells apart a job's hosts and attempts, each in a directory of its own: parts are of one
/// job, the largest's, unless they have ranks in common that ran at the same time, or other worlds.
void join_parts(Parts& parts) {
  std::vector<Parts::iterator> by_size;
  for (auto at = parts.begin(); at != parts.end(); ++at) by_size.push_back(at);
  std::ranges::stable_sort(by_size, std::greater{}, [](const auto& at) { return at->second.size(); });
  std::vector<Parts::iterator> kept;
  for (const auto& part : by_size) {
    const auto with = std::ranges::find_if(kept, [&](const auto& larger) {
      std::vector<const RankSummary*> both = larger->second;
      both.insert(both.end(), part->second.begin(), part->second.end());
      return worlds_of(both).size() < 2 && !has_two_of_a_rank(both);
    });
    if (with == kept.end()) {
      kept.push_back(part);
      continue;
    }
    (*with)->second.insert((*with)->second.end(), part->second.begin(), part->second.end());
    parts.erase(part);
  }
}

/// Jobs without an id that ran at the same time have the same ranks: what else tells them apart.
Jobs split(std::vector<RankSummary> summaries) {
  using Key = std::function<std::string(const RankSummary&)>;
  std::vector<const RankSummary*> all;
  for (const RankSummary& s : summaries) all.push_back(&s);
  const bool worlds = has_two_worlds(summaries);
  if (!worlds && !has_two_of_a_rank(all)) return one_job(std::move(summaries));
  // Ranks of a job start within a minute.
  std::vector<const RankSummary*> by_start = all;
  std::ranges::sort(by_start, {}, &RankSummary::begin);
  std::map<const RankSummary*, std::string> starts;
  for (std::size_t i = 0; i < by_start.size(); ++i)
    starts[by_start[i]] = i > 0 && by_start[i]->begin - by_start[i - 1]->begin < std::chrono::minutes(1)
                              ? starts[by_start[i - 1]]
                              : started(*by_start[i]);
  const std::vector<Key> keys{
      [](const RankSummary& s) {
        return s.identity.world_size ? "world size " + std::to_string(*s.identity.world_size) : std::string();
      },
      [](const RankSummary& s) { return std::filesystem::path(s.file).parent_path().filename().string(); },
      [](const RankSummary& s) {
        std::string name = name_without_numbers(std::filesystem::path(s.file).filename());
        std::erase_if(name, [](char c) { return c == '/' || c == '#'; });
        return name;
      },
      [&](const RankSummary& s) { return starts[&s]; }};
  for (const Key& key : keys) {
    Parts parts;
    for (const RankSummary* const s : all) parts[key(*s)].push_back(s);
    const bool is_world = &key == &keys.front();
    if (is_world) parts.erase("");  // those that state none are placed below
    if (parts.size() < 2 || std::ranges::any_of(parts, [](const auto& part) { return has_two_of_a_rank(part.second); }))
      continue;
    if (!is_world) join_parts(parts);
    std::map<const RankSummary*, std::string> names;
    for (const auto& [name, part] : parts)
      for (const RankSummary* const s : part) names[s] = name;
    Jobs jobs;
    std::vector<RankSummary> unknown;
    for (RankSummary& s : summaries) {
      const auto name = names.find(&s);
      (name == names.end() ? unknown : jobs[name->second]).push_back(std::move(s));
    }
    place(std::move(unknown), jobs);
    return jobs;
  }
  return one_job(std::move(summaries));
}

std::vector<Job> jobs_of(std::vector<RankSummary> summaries) {
  std::vector<Job> jobs;
  for (auto& [id, of_id] : by_id(std::move(summaries)))
    for (auto& [name, part] : split(std::move(of_id)))
      jobs.push_back({id + (id.empty() || name.empty() ? "" : ", ") + name, std::move(part)});
  return jobs;
}

}  // namespace

bool are_two_processes(const RankSummary& a, const RankSummary& b) {
  constexpr std::uint64_t helper = 10;  // a helper process of a rank holds less than 1/10 of the rank's memory
  const auto [less, more] = std::minmax(a.peak_live.count, b.peak_live.count);
  if (!ran_at_once(a, b) || less < more / helper) return false;
  const auto has_process = [](const RankSummary& s) { return s.identity.process != 0; };
  if (has_process(a) && has_process(b))
    return std::tie(a.identity.host, a.identity.process) != std::tie(b.identity.host, b.identity.process);
  // A process's snapshots are kept side by side, and may be beside its recording.
  return !has_process(a) && !has_process(b) &&
         (directory_of(a) != directory_of(b) || name_without_numbers(a.file) != name_without_numbers(b.file));
}

Result<std::vector<Fleet>> assemble_jobs(std::vector<RankSummary> summaries, const FleetOptions& options) {
  find_ranks(summaries, options.pattern);
  std::vector<Job> jobs = jobs_of(std::move(summaries));
  const bool several = jobs.size() > 1;
  if (!options.job.empty()) {
    std::string names;
    for (const Job& job : jobs)
      names += (names.empty() ? "" : ", ") + (job.name.empty() ? "one without a name" : job.name);
    std::erase_if(jobs, [&](const Job& job) { return job.name != options.job; });
    if (jobs.empty())
      return Error{.what = "there is no job '" + options.job + "'", .where = "--job", .remedy = "there is " + names};
  }
  std::vector<Fleet> fleets;
  for (Job& job : jobs) {
    Result<Fleet> fleet = assemble_fleet(std::move(job.summaries), options);
    if (!fleet) return std::move(fleet).error();
    if (several) fleet->job = std::move(job.name);
    fleets.push_back(*std::move(fleet));
  }
  std::ranges::stable_sort(fleets, [](const Fleet& a, const Fleet& b) {
    const auto latest = [](const Fleet& fleet) {
      Nanoseconds begin{};
      for (const FleetRow& row : fleet.rows) begin = std::max(begin, row.summary.begin);
      return begin;
    };
    return a.rows.size() != b.rows.size() ? a.rows.size() > b.rows.size() : latest(a) > latest(b);
  });
  return fleets;
}

}  // namespace memreel
