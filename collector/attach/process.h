// SPDX-License-Identifier: Apache-2.0
// Another process: what /proc says about it, its memory and its files. Every answer is a snapshot: the process may end
// and its ID be reused.
#pragma once

#include <sys/types.h>
#include <sys/user.h>

#include <span>

#include "collector/attach/control_socket.h"
#include "formats/model/result.h"
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

// Another process's memory and mapped files, read without stopping it.

// One thread of another process, stopped for a moment (ptrace(2)).

/// The full state needed to resume a thread as if nothing had happened.
struct ThreadState {
  user_regs_struct registers{};
  std::vector<std::byte> extended;  // floating-point and vector registers, as the kernel returns them
  std::uint64_t signal_mask = 0;
};

/// Seized (PTRACE_SEIZE), which the thread does not notice; detached by the destructor, or by the kernel when this
/// process ends. Signals sent to it meanwhile are delivered. Only the thread of this process that created it may use
/// it.
class TracedThread {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  /// Errors: the errno of the system's refusal.
  static std::optional<int> seize(pid_t thread);  // none: success

  explicit TracedThread(pid_t thread) : thread_(thread) {}
  TracedThread(const TracedThread&) = delete;
  TracedThread& operator=(const TracedThread&) = delete;
  /// Detaches; the thread resumes with the state set last.
  ~TracedThread();

  /// False if it does not stop in time, or is gone.
  bool stop(Deadline deadline);
  /// The stopped thread's state.
  std::optional<ThreadState> state() const;
  bool set_state(const ThreadState& state) const;
  bool set_registers(const user_regs_struct& registers) const;
  bool set_signal_mask(std::uint64_t mask) const;

  /// Runs until stop().
  bool resume();
  /// Runs to the start or end of its next system call. Before it is detached it must be stopped again, at a point where
  /// the kernel handles interrupted calls.
  bool run_to_system_call(Deadline deadline);

  bool is_gone() const { return gone_; }
  pid_t number() const { return thread_; }

 private:
  enum class Stop { none, by_us, system_call, gone };
  bool wait_for(Stop wanted, Deadline deadline);
  Stop take_in(int status);

  pid_t thread_;
  bool stopped_ = false, gone_ = false;
  bool to_system_call_ = false;  // resumed to stop at a system call
  bool stop_signal_ = false;     // a SIGSTOP from elsewhere, to be delivered after we detach
};

/// A line of /proc/PID/maps.
struct Mapping {
  std::uint64_t begin = 0, end = 0;
  bool executable = false;
  std::uint64_t offset = 0;
  std::string name;  // a file, "[stack]"..., or empty

  /// The last part of the name, without " (deleted)".
  std::string_view file() const;
};

class RemoteProcess {
 public:
  /// Errors: the system's reason why its memory may not be read.
  static Result<RemoteProcess> open(pid_t process);
  RemoteProcess(RemoteProcess&& other) noexcept;
  RemoteProcess& operator=(RemoteProcess&&) = delete;
  RemoteProcess(const RemoteProcess&) = delete;
  RemoteProcess& operator=(const RemoteProcess&) = delete;
  ~RemoteProcess();

  pid_t number() const { return process_; }

  /// Fills all of `into`, or returns false.
  bool read(std::uint64_t address, std::span<std::byte> into) const;
  /// Also writes where the process itself may not.
  bool write(std::uint64_t address, std::span<const std::byte> bytes) const;

  template <class T>
  std::optional<T> read(std::uint64_t address) const {
    T value{};
    if (!read(address, std::as_writable_bytes(std::span(&value, 1)))) return std::nullopt;
    return value;
  }
  /// Up to the terminating zero, at most 4096 bytes.
  std::string read_text(std::uint64_t address) const;

  /// The current mappings, by address.
  std::vector<Mapping> mappings() const;

 private:
  RemoteProcess(pid_t process, int memory) : process_(process), memory_(memory) {}
  pid_t process_;
  int memory_;
};

/// The base of a library: its first mapping whose file is called `file`; none if there is none.
std::optional<std::uint64_t> base_of(std::span<const Mapping> mappings, std::string_view file);

/// The address of a function exported by the library at `base`, from the tables in memory that its loader uses: the
/// file may have been replaced. 0 if there is no such function.
std::uint64_t exported_function(const RemoteProcess& process, std::uint64_t base, std::string_view name);

}  // namespace memreel::attach
