// SPDX-License-Identifier: Apache-2.0
// What is asked of a job, and where its recordings are.
#pragma once

#include <filesystem>
#include <functional>
#include <span>

#include "analyzer/fleet/fleet.h"
#include "analyzer/fleet/map.h"
#include "formats/model/result.h"

namespace memreel {

struct FleetInputs {
  std::vector<std::filesystem::path> files;    // absolute, in natural order: rank2 before rank10
  std::vector<std::filesystem::path> skipped;  // found in directories: no recordings, and those below
  std::vector<std::filesystem::path>
      unread;  // what may have recordings: links to directories or to nothing, directories that are closed, pipes
};

/// Orders numbers in names by value: rank2 before rank10.
bool natural_less(std::string_view a, std::string_view b);

/// The named files, and all recordings in the named directories and below: files that import recognizes, or that are
/// named like one. Errors: something does not exist; there are no recordings.
Result<FleetInputs> find_inputs(std::span<const std::filesystem::path> named);

/// The recordings that find_inputs() finds in a directory, named as the directory is; nothing if it has more than
/// `most_entries` files and directories. Stays within its file system: /proc is not a place to look in.
Result<std::optional<std::vector<std::filesystem::path>>> recordings_in(const std::filesystem::path& directory,
                                                                        std::size_t most_entries);

/// The files of one of `count` shards: sizes differ a hundredfold, so each gets its share of the large ones.
std::vector<std::filesystem::path> files_of_shard(std::vector<std::filesystem::path> files, std::uint32_t shard,
                                                  std::uint32_t count);

/// 0 if it can't be seen.
std::uint64_t file_bytes(const std::filesystem::path& file);

/// Largest first, so that no large one is left for the end.
void sort_by_size(std::vector<std::filesystem::path>& files);

// Which part of a job's recordings a process works on, if there are many processes.

struct Shard {
  std::uint32_t index = 0, count = 1;
  std::string from;  // its source: "--shard", "SLURM_ARRAY_TASK_ID"; empty: none, so everything

  friend bool operator==(const Shard&, const Shard&) = default;
};

/// "2/8": the third of eight. Errors: any other format, or an index not below the count.
Result<Shard> parse_shard(std::string_view text);

/// The value of an environment variable; nothing if it is not set.
using Environment = std::function<std::optional<std::string>(const char*)>;

/// The shard given by the launcher: steps of Slurm, Open MPI, PMI (MPICH, Intel MPI), torchrun, indexed jobs of
/// Kubernetes, and arrays of Slurm, whose tasks may each be a step of several processes. Without a launcher,
/// everything. Errors: an invalid variable.
Result<Shard> shard_of(const Environment& environment);

// What a user asks of a fleet, on the command line of `memreel fleet` and of `memreel-fleet-mpi`.

inline constexpr std::uint64_t most_jobs = 1024;             // recordings read at once
inline constexpr std::uint64_t most_time_limit = 1'000'000;  // seconds for reading one

/// Options as typed; empty or zero: the default.
struct FleetWords {
  std::string mesh, capacity, rank_pattern, heap, memory_limit, host_memory, job;
  std::optional<std::uint32_t> world_size;
  std::uint64_t time_limit = 0;  // in seconds
};

struct FleetQuestion {
  FleetOptions fleet;
  MapOptions map;
};

/// Sets the fleet's options, and of `map` the names and limits. Errors name the option.
Result<FleetQuestion> parse_question(const FleetWords& words);

}  // namespace memreel
