// What /proc says of a process. Every answer is of a moment: the process may end, and another take its number.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace memreel::attach {

/// The whole of /proc/PROCESS/FILE; none when it can't be read.
std::optional<std::string> read_proc(pid_t process, std::string_view file);

/// When it started, in clock ticks since boot: with the number, this names a process once and for all.
std::optional<std::uint64_t> start_time(pid_t process);

/// A process that may end at any time, and its number go to another. To be made while it is known to be the one meant.
class KnownProcess {
 public:
  explicit KnownProcess(pid_t number) : number_(number), start_(start_time(number)) {}

  /// True also while nobody has asked for its exit code (a zombie), and when its number is another's by now.
  bool has_ended() const;

 private:
  pid_t number_;
  std::optional<std::uint64_t> start_;
};

/// What the kernel calls it, at most 15 bytes; empty when it is gone.
std::string command_name(pid_t process);

/// At most three processes that the kernel calls so, the latest first.
std::vector<pid_t> processes_named(std::string_view name);

/// All of this machine that can be seen, by number.
std::vector<pid_t> all_processes();

/// The number by which it knows itself: another than ours when it is in a container.
std::optional<std::uint64_t> number_in_own_namespace(pid_t process);

/// The value of a line "NAME:\tVALUE" of /proc/PROCESS/status; empty when there is none.
std::string status_field(pid_t process, std::string_view name);

/// Its threads at this moment; empty when it is gone.
std::vector<pid_t> threads_of(pid_t process);

}  // namespace memreel::attach
