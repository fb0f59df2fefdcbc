// SPDX-License-Identifier: Apache-2.0
// Work sharing over MPI: an idle process takes the next item that it can read.
#pragma once

#include <filesystem>
#include <functional>
#include <vector>

#include "analyzer/fleet/child_processes.h"

namespace memreel::mpi {

/// MPI from initialization to finalization. One per process.
class Session {
 public:
  Session(int& argc, char**& argv);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session();

  int rank() const { return rank_; }
  int size() const { return size_; }
  bool first() const { return rank_ == 0; }

 private:
  int rank_ = 0, size_ = 1;
};

/// Ends every process of the job with this exit code, 0.2 s later: launchers may drop what they have not forwarded.
[[noreturn]] void end_all(int code);

/// Sends the first process's texts to every process.
std::vector<std::string> broadcast(const Session& session, const std::vector<std::string>& texts);

/// A file and the processes that can read it: those on its node, or all.
struct Item {
  std::filesystem::path file;
  std::string machine;  // whose disk has it (map.h): others may have another file of that path
  std::uint64_t bytes = 0;
  std::vector<int> processes;
};

/// The files that the processes see, largest first; each process gets those it can read itself, the first one gets all.
std::vector<Item> gather(const Session& session, const std::vector<std::filesystem::path>& files);

/// Calls `work(i)` once for each of `count` items, in child processes, up to `jobs` at once on each process. The first
/// process hands out items in order to processes that request work and may take them, and works itself meanwhile.
/// `done` is called where the work was done. `input`: as for ChildPool. All processes return when everything is done.
void share_out(const Session& session, std::size_t count, unsigned jobs, const ChildLimits& limits,
               const std::function<bool(std::size_t item, int process)>& may_take,
               const std::function<std::string(std::size_t)>& work,
               const std::function<void(std::size_t, ChildOutcome)>& done,
               const std::function<std::uint64_t(std::size_t)>& input);

}  // namespace memreel::mpi
