// SPDX-License-Identifier: Apache-2.0
// How launchers tell a process its rank and job size. A single list for naming recordings, identifying their process,
// and dividing work.
#pragma once

#include <array>

namespace memreel {

/// Names of environment variables; null if the launcher has none.
struct Launcher {
  const char* rank;
  const char* world_size = nullptr;
  const char* local_rank = nullptr;
  // If `job` is set, the launcher started only the processes that also have `step`.
  const char* job = nullptr;
  const char* step = nullptr;
};

/// Inner launchers come first: torchrun in a Slurm step, mpirun in an allocation. Slurm's batch scripts have a rank and
/// a number of tasks without being one of them (seen in 22.05). Kubernetes sets the index of a pod in an indexed job;
/// the job's author sets the number of pods.
inline constexpr std::array<Launcher, 6> launchers{
    {{.rank = "RANK", .world_size = "WORLD_SIZE", .local_rank = "LOCAL_RANK"},  // torchrun
     {.rank = "OMPI_COMM_WORLD_RANK", .world_size = "OMPI_COMM_WORLD_SIZE", .local_rank = "OMPI_COMM_WORLD_LOCAL_RANK"},
     {.rank = "PMI_RANK", .world_size = "PMI_SIZE", .local_rank = "MPI_LOCALRANKID"},  // MPICH, Intel MPI
     {.rank = "PMIX_RANK"},
     {.rank = "SLURM_PROCID",
      .world_size = "SLURM_NTASKS",
      .local_rank = "SLURM_LOCALID",
      .job = "SLURM_JOB_ID",
      .step = "SLURM_STEP_ID"},
     {.rank = "JOB_COMPLETION_INDEX", .world_size = "JOB_COMPLETIONS"}}};

/// Whether the variables that are set are consistent with `launcher` having started this process.
template <class IsSet>
bool may_have_started(const Launcher& launcher, const IsSet& is_set) {
  return launcher.step == nullptr || !is_set(launcher.job) || is_set(launcher.step);
}

}  // namespace memreel
