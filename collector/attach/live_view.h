// SPDX-License-Identifier: Apache-2.0
// A periodically redrawn table of what memory is used for while a program is being recorded.
#pragma once

#include <signal.h>  // NOLINT(modernize-deprecated-headers): sigset_t
#include <termios.h>

#include <array>
#include <deque>
#include <unordered_map>

#include "collector/attach/process.h"
#include "formats/model/live_set.h"
#include "formats/model/tables.h"
#include "formats/reader/trace_reader.h"

namespace memreel::attach {

// Keyboard input for a table that is redrawn periodically.

/// While this lives, keys arrive one at a time without echo, and SIGINT, SIGTERM and SIGHUP count as keys. If standard
/// input or output is not a terminal, only signals are reported.
class Keys {
 public:
  /// Means quit: the key q, a signal, or the terminal's hangup.
  static constexpr char end = 'q';

  Keys();
  Keys(const Keys&) = delete;
  Keys& operator=(const Keys&) = delete;
  ~Keys();

  /// The next key in lower case; 0 if none came within `pause`. Returns at once if `pause` is negative.
  char next(std::chrono::milliseconds pause);

 private:
  sigset_t mask_before_{};
  int signals_ = -1;
  bool terminal_ = false;
  termios before_{};
};

// Live memory in a trace that is still being written, as far as it has been read.

struct LiveHeap {
  std::string name;
  std::int32_t device = 0;
  Bytes live;
  Bytes reserved;                       // by a pool, from its parent; 0 for the driver's own heaps
  std::optional<double> fragmentation;  // 1 - live / reserved
};

struct LiveStack {
  StackId stack = StackId::none;
  Bytes live;
  std::uint64_t count = 0;
};

/// Memory: live bytes, and a number for each stack seen.
class LiveMemory {
 public:
  /// `tables` may grow, and must outlive this.
  explicit LiveMemory(const Tables& tables) : tables_(&tables), set_(tables) {}

  /// Adds the next block's events.
  void add(const EventBatch& batch);

  std::uint64_t event_count() const { return events_; }

  /// By device, in order of first use: heaps that hold something or once did.
  std::vector<LiveHeap> heaps() const;

  /// The stacks that hold the most, in the heaps nearest to the program: tensors if a framework was seen.
  std::vector<LiveStack> top(std::size_t count) const;

  /// Average growth of live bytes over the latest steps; none until three steps were seen. A step ends at a mark called
  /// "step" or similar, or at an optimizer's mark.
  std::optional<double> growth_per_step() const;

 private:
  struct Owner {
    StackId stack = StackId::none;
    Bytes size;
    Level level = Level::driver;
  };
  struct Held {
    Bytes live;
    std::uint64_t count = 0;
  };

  bool is_step(const Event& event) const;
  Bytes live_in(Level level) const;
  Level level() const { return has_framework_ ? Level::framework : Level::driver; }

  const Tables* tables_;
  LiveSet set_;
  std::uint64_t events_ = 0;
  std::unordered_map<std::uint64_t, Owner> owners_;                  // by allocation
  std::array<std::unordered_map<std::uint64_t, Held>, 2> by_stack_;  // by level, then stack
  bool has_framework_ = false;
  std::deque<Bytes> at_steps_;  // live bytes at the latest steps
};

/// Follows the growing `trace` of `process` and prints to standard output every `interval` seconds, until `duration`
/// seconds have passed (0: no limit), a signal or the key q quits, or the process is gone. Returns true if it is gone.
/// If standard output is not a terminal, prints one line each time.
bool show_live(const KnownProcess& process, const std::string& trace, double interval, double duration);

}  // namespace memreel::attach
