// Live memory in a trace that is still being written, as far as it has been read.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "formats/model/live_set.h"
#include "formats/model/tables.h"
#include "formats/reader/trace_reader.h"

namespace memreel::attach {

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

}  // namespace memreel::attach
