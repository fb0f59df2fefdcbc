// SPDX-License-Identifier: Apache-2.0
// What /proc says about a process. Every answer is a snapshot: the process may end and its ID be reused.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collector/attach/control_socket.h"
#include "formats/model/tables.h"
#include "formats/model/units.h"

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

// The agent's report on its recording: the answer to "status" (control_socket.h), written and parsed here.

struct HeapStatus {
  std::int32_t device = 0;  // CUDA ordinal; -1: the host
  Level level = Level::driver;
  Bytes live, peak;  // requested and not freed, and its highest value since recording began
  Bytes reserved;    // by a pool; for a framework that does not report its segments, all that the driver gave out
  std::string name;

  friend bool operator==(const HeapStatus&, const HeapStatus&) = default;
};

struct DeviceStatus {
  std::int32_t device = 0;
  Bytes used, free;  // by all programs together, when last sampled

  friend bool operator==(const DeviceStatus&, const DeviceStatus&) = default;
};

struct ProcessStatus {
  bool recording = false;
  std::string trace;   // absolute path
  std::string source;  // where driver calls are observed: "cupti" or "interpose"
  std::string rank;    // empty: the process has none
  std::uint64_t events = 0, lost = 0;
  std::vector<HeapStatus> heaps;  // in order of first use, at most 256
  std::vector<DeviceStatus> devices;

  friend bool operator==(const ProcessStatus&, const ProcessStatus&) = default;
};

Message to_message(const ProcessStatus& status);

/// Skips missing, malformed and unknown fields: the answer may come from another version, or another program.
ProcessStatus process_status(const Message& answer);

}  // namespace memreel::attach
