// SPDX-License-Identifier: Apache-2.0
// Which of the recordings in a directory are of one job.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "analyzer/fleet/fleet.h"
#include "analyzer/fleet/fleet_parts.h"

namespace memreel {
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
      Nanoseconds latest{};
      for (const FleetRow& row : fleet.rows) latest = std::max(latest, row.summary.begin);
      return latest;
    };
    return a.rows.size() != b.rows.size() ? a.rows.size() > b.rows.size() : latest(a) > latest(b);
  });
  return fleets;
}

}  // namespace memreel
