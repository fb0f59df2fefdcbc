// What recorded processes hold, sampled from outside.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "collector/attach/analysis.h"
#include "collector/attach/process_status.h"
#include "collector/top/growth.h"

namespace memreel::top {

struct WatchedHeap {
  attach::HeapStatus status;
  std::optional<double> growth;  // of live bytes, per minute
};

struct WatchedProcess {
  pid_t process = 0;
  std::string name;                // what the kernel calls it, printable
  std::string problem;             // why it can't be asked; empty: it can
  attach::ProcessStatus status;    // what it said; its heaps are below
  std::vector<WatchedHeap> heaps;  // of devices, that hold something or once did; those of one name are one
  std::optional<attach::Findings> findings;
};

/// Asks processes what they hold, remembers how that grew, and has their traces analysed, one at a time.
class Watch {
 public:
  using Clock = std::chrono::steady_clock;

  enum class Analyse : bool { no, yes };
  explicit Watch(Analyse analyse) : analyse_(analyse == Analyse::yes) {}

  /// Asks each of `processes`, and forgets all others. Waits at most half a second for one that does not answer, which
  /// is then left in peace for ten.
  void refresh(std::span<const pid_t> processes, Clock::time_point now);

  /// As of the last refresh, in its order, without those that had no control socket.
  const std::vector<WatchedProcess>& processes() const { return processes_; }

 private:
  /// Of a process by its number and when it started.
  using Key = std::pair<pid_t, std::uint64_t>;
  struct Followed {
    std::map<std::tuple<std::int32_t, int, std::string>, Growth> growth;  // by device, level and name
    std::string trace;
    std::unique_ptr<attach::Analysis> analysis;  // of that trace
    Clock::time_point ask_again;
    std::string problem;
  };

  std::optional<WatchedProcess> ask(pid_t process, Followed& followed, Clock::time_point now) const;
  void analyse(Clock::time_point now);

  bool analyse_;
  attach::Turn turn_;
  std::map<Key, Followed> followed_;
  std::vector<WatchedProcess> processes_;
};

}  // namespace memreel::top
