// SPDX-License-Identifier: Apache-2.0
#include "viewer/model/ranks.h"

#include <algorithm>
#include <new>
#include <optional>
#include <utility>

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

}  // namespace memreel::viewer
