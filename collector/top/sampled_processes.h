// SPDX-License-Identifier: Apache-2.0
// What recorded processes hold, sampled from outside.
#pragma once

#include <sys/types.h>

#include <deque>
#include <map>
#include <memory>
#include <span>
#include <tuple>

#include "collector/attach/process.h"
#include "collector/attach/session.h"
#include "formats/model/units.h"

namespace memreel::top {

// The growth rate of a value.

/// Growth over the last minute, from successive samples. Memory: one sample per second.
class Growth {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds window{60};

  void add(Clock::time_point time, Bytes value);

  /// Bytes per minute, negative if it shrinks; none before the second sample.
  std::optional<double> per_minute() const;

 private:
  struct Sample {
    Clock::time_point time;
    Bytes value;
  };
  std::deque<Sample> samples_;  // newest last, however soon after the one before
};

struct WatchedHeap {
  attach::HeapStatus status;
  std::optional<double> growth;  // of live bytes, per minute
};

struct WatchedProcess {
  pid_t process = 0;
  std::string name;                // the kernel's name for it, printable
  std::string problem;             // why it can't be queried; empty: it can
  attach::ProcessStatus status;    // its answer; its heaps are below
  std::vector<WatchedHeap> heaps;  // on devices, that hold something or once did; heaps with the same name are merged
  std::optional<attach::Findings> findings;
};

/// Queries what processes hold, tracks its growth, and has their traces analysed, one at a time.
class Watch {
 public:
  using Clock = std::chrono::steady_clock;

  enum class Analyse : bool { no, yes };
  explicit Watch(Analyse analyse) : analyse_(analyse == Analyse::yes) {}

  /// Queries each of `processes`, and forgets all others. Waits at most half a second for a process that does not
  /// answer, and then skips it for ten.
  void refresh(std::span<const pid_t> processes, Clock::time_point now);

  /// As of the last refresh, in its order, without processes that had no control socket.
  const std::vector<WatchedProcess>& processes() const { return processes_; }

 private:
  /// A process by its ID and start time.
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
