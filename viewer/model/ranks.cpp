// SPDX-License-Identifier: Apache-2.0
#include "viewer/model/ranks.h"

#include <algorithm>
#include <utility>

#include "analyzer/fleet/inputs.h"
#include "analyzer/fleet/rank_summary.h"
#include "formats/import/import.h"

namespace memreel::viewer {
namespace {

RankSeries series_of(const std::filesystem::path& file, std::optional<std::uint32_t> named, Bytes memory_limit) {
  RankSummary summary = summarize(file, {}, memory_limit);
  RankSeries series{.name = file.filename().string(),
                    .problem = summary.usable() ? "" : std::move(summary.reason),
                    .peak_reserved = summary.peak_reserved,
                    .peak_live = summary.peak_live,
                    .reserved = std::move(summary.reserved),
                    .allocated = std::move(summary.allocated)};
  if (summary.identity.rank) named = summary.identity.rank;
  if (named) series.name = "rank " + std::to_string(*named);
  return series;
}

}  // namespace

Result<std::vector<std::filesystem::path>> recordings_in(std::span<const std::filesystem::path> named) {
  Result<FleetInputs> inputs = find_inputs(named);
  if (!inputs) return std::move(inputs).error();
  return std::move(inputs->files);
}

bool may_be_opened(const std::filesystem::path& file) { return is_recognised(file); }

Ranks::Ranks(std::vector<std::filesystem::path> files, std::function<void()> wake, Bytes memory_limit)
    : files_(std::move(files)), all_series_(files_.size()) {
  thread_ = std::jthread([this, wake = std::move(wake), memory_limit](const std::stop_token& stop) {
    const auto named = ranks_in_names(files_);
    for (std::size_t i = 0; i < files_.size() && !stop.stop_requested(); ++i) {
      auto series = std::make_shared<const RankSeries>(series_of(files_[i], named[i], memory_limit));
      {
        const std::lock_guard lock(mutex_);
        all_series_[i] = std::move(series);
      }
      read_.store(i + 1, std::memory_order_release);
      wake();
    }
  });
}

std::shared_ptr<const RankSeries> Ranks::series(std::size_t file) const {
  const std::lock_guard lock(mutex_);
  return all_series_[file];
}

std::string Ranks::name(std::size_t file) const {
  const auto series = this->series(file);
  return series ? series->name : files_[file].filename().string();
}

Bytes Ranks::highest() const {
  Bytes highest;
  for (std::size_t i = 0; i < files_.size(); ++i)
    if (const auto series = this->series(i)) highest = std::max(highest, series->peak_reserved);
  return highest;
}

}  // namespace memreel::viewer
