// Which part of a job's recordings a process works on, if there are many processes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "formats/model/result.h"

namespace memreel {

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

}  // namespace memreel
