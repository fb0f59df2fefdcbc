// SPDX-License-Identifier: Apache-2.0
#include "viewer/model/ranks.h"

#include <algorithm>
#include <ctime>
#include <map>
#include <new>
#include <set>
#include <tuple>

#include "analyzer/fleet/fleet.h"
#include "analyzer/fleet/inputs.h"
#include "analyzer/fleet/rank_summary.h"
#include "formats/import/import.h"

namespace memreel::viewer {

struct Ranks::Unjudged {
  std::vector<std::optional<std::uint32_t>> named;
  std::vector<RankSummary> summaries;  // by file
};

namespace {

RankSeries series_of(const std::filesystem::path& file, std::optional<std::uint32_t> named,
                     const RankSummary& summary) {
  RankSeries series{.name = file.filename().string(),
                    .problem = summary.usable() ? "" : summary.reason,
                    .peak_reserved = summary.peak_reserved,
                    .peak_live = summary.peak_live,
                    .reserved = summary.reserved,
                    .allocated = summary.allocated};
  if (summary.identity.rank) named = summary.identity.rank;
  if (named) series.name = "rank " + std::to_string(*named);
  return series;
}

RankSummary read(const std::filesystem::path& file, Bytes memory_limit) {
  try {
    return summarize(file, {}, memory_limit);
  } catch (const std::bad_alloc&) {
    return unreadable(file, {}, "there is not enough memory to read it");
  }
}

}  // namespace

Result<std::vector<std::filesystem::path>> recordings_in(std::span<const std::filesystem::path> named) {
  Result<FleetInputs> inputs = find_inputs(named);
  if (!inputs) return std::move(inputs).error();
  return std::move(inputs->files);
}

bool may_be_opened(const std::filesystem::path& file) { return is_recognised(file); }

Ranks::Ranks(std::vector<std::filesystem::path> files, std::function<void()> wake, Bytes memory_limit)
    : files_(std::move(files)), all_series_(files_.size()), unjudged_(std::make_shared<Unjudged>()) {
  // Each may need as much memory as a large file takes.
  constexpr std::size_t most_readers = 8;
  const std::size_t cores = std::max(1U, std::thread::hardware_concurrency());
  unjudged_->named = ranks_in_names(files_);
  unjudged_->summaries.resize(files_.size());
  for (std::size_t i = 0; i < std::min({cores, most_readers, files_.size()}); ++i)
    threads_.emplace_back(
        [this, wake, memory_limit](const std::stop_token& stop) { read_files(stop, wake, memory_limit); });
}

void Ranks::read_files(const std::stop_token& stop, const std::function<void()>& wake, Bytes memory_limit) {
  for (std::size_t i = 0; !stop.stop_requested() && (i = next_.fetch_add(1)) < files_.size();) {
    RankSummary summary = viewer::read(files_[i], memory_limit);
    auto series = std::make_shared<const RankSeries>(series_of(files_[i], unjudged_->named[i], summary));
    unjudged_->summaries[i] = std::move(summary);
    {
      const std::lock_guard lock(mutex_);
      all_series_[i] = std::move(series);
    }
    if (read_.fetch_add(1) + 1 == files_.size()) judge();
    wake();
  }
}

void Ranks::judge() {
  FolderOverview overview;
  try {
    if (const auto fleets = assemble_jobs(std::move(unjudged_->summaries), {}))
      overview = overview_of(*fleets, files_);
    else
      overview.problem = fleets.error().message();
  } catch (const std::bad_alloc&) {
    overview.problem = "there is not enough memory to judge the job";
  }
  const std::lock_guard lock(mutex_);
  overview_ = std::make_shared<const FolderOverview>(std::move(overview));
  unjudged_->summaries.clear();
}

std::shared_ptr<const RankSeries> Ranks::series(std::size_t file) const {
  const std::lock_guard lock(mutex_);
  return all_series_[file];
}

std::string Ranks::name(std::size_t file) const {
  const auto series = this->series(file);
  if (const auto known = overview(); known && file < known->names.size()) return known->names[file];
  return series ? series->name : files_[file].filename().string();
}

Bytes Ranks::highest() const {
  Bytes highest;
  for (std::size_t i = 0; i < files_.size(); ++i)
    if (const auto series = this->series(i)) highest = std::max(highest, series->peak_reserved);
  return highest;
}

std::shared_ptr<const FolderOverview> Ranks::overview() const {
  const std::lock_guard lock(mutex_);
  return overview_;
}

namespace {

/// Earlier ones are counted from a computer's start, or in events.
constexpr Nanoseconds least_wall_clock = std::chrono::hours(24 * 365 * 30);

using FileIndex = std::map<std::string, std::size_t, std::less<>>;

bool contains(const std::vector<std::uint32_t>& rows, std::uint32_t row) {
  return std::ranges::find(rows, row) != rows.end();
}

std::string utc(Nanoseconds time, const char* format) {
  const std::time_t seconds = std::chrono::duration_cast<std::chrono::seconds>(time).count();
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  std::string text(32, ' ');
  text.resize(std::strftime(text.data(), text.size(), format, &parts));
  return text;
}

void add_note(RankLine& line, const std::string& note) {
  if (!note.empty()) line.note += (line.note.empty() ? "" : "; ") + note;
}

std::string failure_note(const RankSummary& s) {
  return "out of memory: " + text_of(s.failed_allocations) +
         (s.failed_allocations == 1 ? " request refused" : " requests refused") +
         (s.first_failure ? ", the first of " + text_of(*s.first_failure) : "");
}

class Overview {
 public:
  Overview(const Fleet& fleet, const FileIndex& files, std::size_t most_lines)
      : fleet_(fleet), files_(files), most_lines_(most_lines) {}

  JobOverview make() {
    job_.headline = headline_of(fleet_);
    job_.decides = decision_of(fleet_);
    job_.fails = first_failure_of(fleet_);
    job_.failed = fleet_.decides && !fleet_.decides->failed.empty();
    job_.misses_ranks = !fleet_.missing.empty();
    add_lines();
    find_clock();
    return std::move(job_);
  }

 private:
  struct Placed {
    std::tuple<int, std::int64_t, std::uint32_t> order;  // kind, within it, rank
    RankLine line;
    std::optional<std::uint32_t> klass;  // of ranks that don't stand out
    std::uint32_t rank = 0;
  };
  enum Kind : int { decider, failure, outlier, close, in_part, unreadable, plain, duplicate };

  std::optional<Placed> place(std::uint32_t index) const {
    const FleetRow& row = fleet_.rows[index];
    const RankSummary& s = row.summary;
    const auto file = files_.find(s.file);
    if (file == files_.end()) return std::nullopt;  // missing
    Placed placed{.order = {}, .line = {}, .klass = {}, .rank = row.rank};
    RankLine& line = placed.line;
    line.file = file->second;
    line.name = "rank " + std::to_string(row.rank) + (row.rank_assumed ? " (assumed)" : "");
    line.judged = row.judged();
    line.at_least = row.judged() && row.at_least();
    line.peak_reserved = s.peak_reserved;
    line.capacity = s.capacity;
    line.begin = s.begin;
    line.end = s.end;
    Kind kind = row.judged() ? plain : s.status == RankStatus::duplicate ? duplicate : unreadable;
    if (row.judged() && row.in_part()) kind = in_part;
    if (row.judged()) mark(index, line, kind);
    if (s.status != RankStatus::ok && s.status != RankStatus::missing)
      add_note(line, std::string(words_of(s.status)) + ": " + s.reason);
    if (kind == plain) placed.klass = row.klass;
    const auto failed_at = line.failed_at.value_or(Nanoseconds{}).count();
    placed.order = {kind, kind == failure ? failed_at : 0, row.rank};
    return placed;
  }

  void mark(std::uint32_t index, RankLine& line, Kind& kind) const {
    const FleetRow& row = fleet_.rows[index];
    const RankSummary& s = row.summary;
    if (fleet_.decides && contains(fleet_.decides->near, index)) {
      line.near = true;
      kind = close;
      add_note(line, "came close to its limit");
    }
    const auto found = std::ranges::find(fleet_.outliers, index, &Outlier::row);
    if (found != fleet_.outliers.end()) {
      line.outlier = true;
      kind = outlier;
      add_note(line, found->why);
    }
    if (s.failed_allocations > 0) {
      line.failed = true;
      if (s.first_failure) line.failed_at = s.begin + s.first_failure_time;
      kind = failure;
      add_note(line, failure_note(s));
    }
    if (fleet_.decides && fleet_.decides->row == index) {
      line.decides = true;
      kind = decider;
      if (line.note.empty()) add_note(line, fleet_.decides->why);
    }
  }

  void add_lines() {
    std::vector<Placed> all;
    for (std::uint32_t i = 0; i < fleet_.rows.size(); ++i)
      if (auto placed = place(i)) all.push_back(*std::move(placed));
    for (const Placed& placed : all) {
      if (placed.line.decides) job_.decider = placed.line.file;
      if (placed.line.judged) job_.highest = std::max(job_.highest, placed.line.peak_reserved);
    }
    if (all.size() > most_lines_) join_alike(all);
    std::ranges::stable_sort(all, {}, &Placed::order);
    for (Placed& placed : all) job_.lines.push_back(std::move(placed.line));
    for (const std::string& launcher : fleet_.launchers) {
      const auto file = files_.find(launcher);
      if (file == files_.end()) continue;
      RankLine line{.file = file->second, .alike = {}, .name = "no rank", .note = "has neither a rank nor memory"};
      job_.lines.push_back(std::move(line));
    }
  }

  /// Ranks of a class become one line with its heaviest; so do recordings of ranks of which another is judged.
  void join_alike(std::vector<Placed>& all) const {
    std::map<std::int64_t, std::vector<Placed>> groups;
    std::vector<Placed> rest;
    for (Placed& placed : all) {
      if (placed.klass)
        groups[*placed.klass].push_back(std::move(placed));
      else if (std::get<0>(placed.order) == duplicate)
        groups[-1].push_back(std::move(placed));
      else
        rest.push_back(std::move(placed));
    }
    for (auto& [klass, members] : groups) {
      std::ranges::stable_sort(members, {}, &Placed::rank);
      auto heaviest = members.begin();
      for (auto at = members.begin(); at != members.end(); ++at)
        if (at->line.peak_reserved > heaviest->line.peak_reserved) heaviest = at;
      std::vector<std::uint32_t> ranks;
      std::vector<RankLine> alike;
      for (auto at = members.begin(); at != members.end(); ++at) {
        if (ranks.empty() || ranks.back() != at->rank) ranks.push_back(at->rank);
        if (at != heaviest) alike.push_back(std::move(at->line));
      }
      Placed joined = *std::move(heaviest);
      const auto peak = static_cast<std::int64_t>(joined.line.peak_reserved.count);
      joined.order = {klass < 0 ? duplicate : plain, -peak, joined.rank};
      if (members.size() > 1) {
        joined.line.alike = std::move(alike);
        joined.line.name = ranks_text(ranks, 40);
        const std::string first = "rank " + std::to_string(joined.rank);
        joined.line.note = klass < 0 ? first + ": " + joined.line.note : first + " is drawn, the heaviest";
      }
      rest.push_back(std::move(joined));
    }
    all = std::move(rest);
  }

  void find_clock() {
    std::set<std::string> hosts;
    std::vector<std::uint32_t> unknown;
    Nanoseconds longest{};
    bool any = false;
    for (const FleetRow& row : fleet_.rows) {
      const RankSummary& s = row.summary;
      if (!row.judged()) continue;
      if (s.begin < least_wall_clock) unknown.push_back(row.rank);
      if (!s.identity.host.empty()) hosts.insert(s.identity.host);
      job_.begin = any ? std::min(job_.begin, s.begin) : s.begin;
      job_.end = any ? std::max(job_.end, s.end) : s.end;
      longest = std::max(longest, s.end - s.begin);
      any = true;
    }
    if (!any) return;
    constexpr std::int64_t most_idle = 4;
    if (!unknown.empty()) {
      job_.clock =
          (unknown.size() == 1 ? "no common clock: the recording of rank " : "no common clock: recordings of ranks ") +
          shortened(text_of_ranks(unknown), 60) + (unknown.size() == 1 ? " does" : " do") +
          " not say when they began; each from its beginning to its end";
    } else if ((job_.end - job_.begin).count() > most_idle * std::max<std::int64_t>(longest.count(), 1)) {
      job_.clock = "no common clock: they did not run at the same time (" + utc(job_.begin, "%Y-%m-%d %H:%M:%S") +
                   " to " + utc(job_.end, "%Y-%m-%d %H:%M:%S") + " UTC); each from its beginning to its end";
    } else {
      job_.one_clock = true;
      job_.clock = "one clock: " + utc(job_.begin, "%Y-%m-%d %H:%M:%S") + " to " + utc(job_.end, "%H:%M:%S") + " UTC";
      if (hosts.size() > 1)
        job_.clock += ", as far as the clocks of " + text_of(std::uint64_t{hosts.size()}) + " hosts agree";
    }
  }

  const Fleet& fleet_;
  const FileIndex& files_;
  std::size_t most_lines_;
  JobOverview job_;
};

}  // namespace

FolderOverview overview_of(std::span<const Fleet> fleets, std::span<const std::filesystem::path> files,
                           std::size_t most_lines) {
  FolderOverview overview;
  FileIndex index;
  for (std::size_t i = 0; i < files.size(); ++i) {
    index.emplace(files[i].string(), i);
    overview.names.push_back(files[i].filename().string());
  }
  for (const Fleet& fleet : fleets) {
    const std::string job = fleet.job.empty() ? "" : fleet.job + ": ";
    for (const FleetRow& row : fleet.rows)
      if (const auto file = index.find(row.summary.file); file != index.end())
        overview.names[file->second] =
            job + "rank " + std::to_string(row.rank) +
            (row.summary.status == RankStatus::duplicate ? ", " + files[file->second].filename().string() : "");
    overview.jobs.push_back(Overview(fleet, index, most_lines).make());
  }
  return overview;
}

}  // namespace memreel::viewer
