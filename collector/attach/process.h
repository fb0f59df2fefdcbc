// What /proc says about a process. Every answer is a snapshot: the process may end and its ID be reused.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace memreel::attach {

/// The whole of /proc/PROCESS/FILE; none if it can't be read.
std::optional<std::string> read_proc(pid_t process, std::string_view file);

/// Start time, in clock ticks since boot: together with the ID, it identifies a process uniquely.
std::optional<std::uint64_t> start_time(pid_t process);

/// A process that may end at any time, after which its ID may be reused. Create it while the process is known to be the
/// one meant.
class KnownProcess {
 public:
  explicit KnownProcess(pid_t number) : number_(number), start_(start_time(number)) {}

  /// Also true for a zombie, and when the ID has been reused.
  bool has_ended() const;

 private:
  pid_t number_;
  std::optional<std::uint64_t> start_;
};

/// The kernel's name for it, at most 15 bytes; empty if it is gone.
std::string command_name(pid_t process);

/// At most three processes with this kernel name, the most recently started first.
std::vector<pid_t> processes_named(std::string_view name);

/// All visible processes on this machine, by ID.
std::vector<pid_t> all_processes();

/// Its process ID in its own namespace: differs from ours in a container.
std::optional<std::uint64_t> number_in_own_namespace(pid_t process);

/// The value of the line "NAME:\tVALUE" in /proc/PROCESS/status; empty if there is none.
std::string status_field(pid_t process, std::string_view name);

/// Its current threads; empty if it is gone.
std::vector<pid_t> threads_of(pid_t process);

}  // namespace memreel::attach
