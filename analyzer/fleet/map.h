// The work on a job cut into files: a result file for each recording, made by any number of processes on any number of
// machines, in any order and as often as one likes. The files are the state: whoever is lost takes with it only what it
// had in hand.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "analyzer/fleet/child_processes.h"
#include "analyzer/fleet/rank_summary.h"
#include "formats/model/result.h"

namespace memreel {

struct MapOptions {
  std::filesystem::path out;  // directory of the results; made when it is not there
  RankNames names;
  ChildLimits limits;
  unsigned jobs = 0;    // recordings read at once; 0: one per core
  bool resume = false;  // leave what was done, unless the recording is newer or of another size
  std::function<void(std::uint64_t done, std::uint64_t total)> on_progress;
};

struct MapOutcome {
  std::uint64_t done = 0, left = 0;  // made now; left as they were
};

/// NAME-0123456789abcdef.rank: two recordings of one name in different directories are different.
std::filesystem::path result_path(const std::filesystem::path& out, const std::filesystem::path& recording);

/// Whether there is a result of this very recording.
bool has_result(const std::filesystem::path& out, const std::filesystem::path& recording);

/// The halves of one recording's work, for callers with a ChildPool of their own: what the child does, and what becomes
/// of its outcome, which is a result file in any case. Errors: it can't be written.
std::string judge_recording(const std::filesystem::path& recording, const MapOptions& options);
Result<void> keep_outcome(const std::filesystem::path& recording, const ChildOutcome& outcome,
                          const MapOptions& options);

/// All of them. Errors: a result can't be written.
Result<MapOutcome> map_recordings(const std::vector<std::filesystem::path>& recordings, const MapOptions& options);

/// Every result in a directory, in order of their names. What is no result is a summary that says so. Errors: it can't
/// be read, or has none.
Result<std::vector<RankSummary>> read_results(const std::filesystem::path& out);

/// Each recording in a child process, nothing written. In order of `recordings`.
std::vector<RankSummary> summarize_recordings(const std::vector<std::filesystem::path>& recordings,
                                              const MapOptions& options);

}  // namespace memreel
