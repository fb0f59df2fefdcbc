// Which part of a job's recordings a process works on, when many do.
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
  std::string from;  // what said so: "--shard", "SLURM_ARRAY_TASK_ID"; empty: nothing, all of it is meant

  friend bool operator==(const Shard&, const Shard&) = default;
};

/// "2/8": the third of eight. Errors: anything else, or not less than the count.
Result<Shard> parse_shard(std::string_view text);

/// The value of an environment variable; nothing when it is not set.
using Environment = std::function<std::optional<std::string>(const char*)>;

/// What launchers say: steps of Slurm, Open MPI, PMI (MPICH, Intel MPI), torchrun, indexed jobs of Kubernetes, and
/// arrays of Slurm, whose tasks may each be a step of several processes. The whole where none of them does. Errors: a
/// variable that makes no sense.
Result<Shard> shard_of(const Environment& environment);

}  // namespace memreel
