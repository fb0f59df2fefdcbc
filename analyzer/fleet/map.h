// SPDX-License-Identifier: Apache-2.0
// Splits the work on a job into files: one result file per recording, made by any number of processes on any number of
// machines, in any order and repeatedly. The files are the state: a lost process loses only what it was working on.
#pragma once

#include <filesystem>
#include <functional>
#include <span>

#include "analyzer/fleet/child_processes.h"
#include "analyzer/fleet/rank_summary.h"
#include "formats/model/result.h"

namespace memreel {

// Result files that several processes may write at the same time, each whole (write_whole() of trace_writer.h).

/// NAME-0123456789abcdef.EXTENSION in `out`: recordings of equal name in different directories or on different machines
/// (MapOptions) are distinct.
std::filesystem::path result_path(const std::filesystem::path& out, const std::filesystem::path& recording,
                                  const std::string& machine, const std::string& extension);

struct MapOptions {
  std::filesystem::path out;  // directory of the results; created if missing
  RankPattern pattern;
  std::string heap;  // to summarize; empty: what each program requested
  ChildLimits limits;
  unsigned jobs = 0;    // recordings read at once; 0: one per core
  bool resume = false;  // keep existing results, unless the recording is newer or its size differs
  /// Of other parts. Their processes may not see them, so they are done if nobody else does.
  std::vector<std::filesystem::path> of_others;
  std::function<void(std::uint64_t done, std::uint64_t total)> on_progress;
};

struct MapOutcome {
  std::uint64_t done = 0, left = 0;  // made now; kept
  std::uint64_t of_others = 0;       // of those made now
};

/// The path of its .rank file.
std::filesystem::path result_path(const std::filesystem::path& out, const std::filesystem::path& recording);

/// Whether there is a result of exactly this recording and heap, under this pattern, which did not exceed its limits or
/// end by a signal.
bool has_result(const std::filesystem::path& recording, const MapOptions& options);

/// The two halves of one recording's work, for callers with their own ChildPool: what the child does, and storing its
/// outcome, which always becomes a result file. Errors: it can't be written.
std::string judge_recording(const std::filesystem::path& recording, const MapOptions& options);
Result<void> keep_outcome(const std::filesystem::path& recording, const ChildOutcome& outcome,
                          const MapOptions& options);

/// Processes all recordings. Errors: a result can't be written.
Result<MapOutcome> map_recordings(const std::vector<std::filesystem::path>& recordings, const MapOptions& options);

/// Every result in a directory, in order of their names. Errors: the directory can't be read, or has none; a result is
/// invalid, or of another heap than `heap`.
Result<std::vector<RankSummary>> read_results(const std::filesystem::path& out, const std::string& heap);

/// The recordings of results that have been deleted since: their folder is on a disk of this machine, or of all, and
/// does not have them any more.
std::vector<std::filesystem::path> deleted_recordings(std::span<const RankSummary> results);

/// Summarizes each recording in a child process, without writing anything. In the order of `recordings`.
std::vector<RankSummary> summarize_recordings(const std::vector<std::filesystem::path>& recordings,
                                              const MapOptions& options);

// How processes that know nothing of each other divide work: by files in a directory that all see.

/// The machine whose disk has a file, so that files of one path on several machines are told apart; containers of one
/// machine have the same. Empty: the file system is known to be one of a network, of which all see the same.
std::string machine_of(const std::filesystem::path& file);

/// Whether statfs(2)'s f_type is that of a file system that machines share.
bool is_network_file_system(std::uint64_t type);

/// Work that this process has in hand: nobody else takes it, unless the process is gone.
class Claim {
 public:
  /// Makes the file; nothing if another process has. `patience`: how long one may take. Where files can't be made, the
  /// work is this process's: twice is better than never.
  static std::optional<Claim> take(const std::filesystem::path& file, std::chrono::seconds patience);
  Claim(Claim&& other) noexcept : file_(std::exchange(other.file_, {})) {}
  Claim& operator=(Claim&&) = delete;
  ~Claim();  // removes the file

 private:
  explicit Claim(std::filesystem::path file) : file_(std::move(file)) {}

  std::filesystem::path file_;
};

}  // namespace memreel
