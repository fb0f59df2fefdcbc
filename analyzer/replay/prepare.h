// Resolves a trace for replay.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "analyzer/engine/prepared.h"
#include "formats/model/trace.h"

namespace memreel {

/// One entry for each heap that has allocations or failed to give any; but none for page-locked host memory of the
/// driver, which no policy allocates. All is copied: the trace may go.
std::vector<Prepared> prepare(const Trace& trace);

/// Prepares a trace from its events, any number of them at a time and in order. Memory: the rows that nobody took, and
/// what is alive.
class Preparation {
 public:
  /// `tables` may grow, and must outlive this.
  explicit Preparation(const Tables& tables);
  Preparation(Preparation&&) noexcept;
  Preparation& operator=(Preparation&&) noexcept;
  ~Preparation();

  /// `first_event`: the index in the trace of the first of `events`.
  void add(const EventColumns& events, std::uint32_t first_event);

  /// The rows made since the last call, in the columns of a heap of which nothing else is to be read. Null when there
  /// are none. Valid until the next call.
  const Prepared* take_rows(HeapId heap);

  /// The heaps that prepare() has entries for, complete but for step_ends. Called once, at the end.
  std::vector<Prepared> finish() &&;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace memreel
