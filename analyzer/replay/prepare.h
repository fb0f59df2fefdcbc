// SPDX-License-Identifier: Apache-2.0
// Resolves a trace for replay.
#pragma once

#include <memory>
#include <span>

#include "analyzer/replay/engine/prepared.h"
#include "formats/model/trace.h"

namespace memreel {

/// One entry per heap that has allocations or failed requests, except for the driver's page-locked host memory, which
/// no policy allocates; none if no allocations were recorded. Everything is copied: the trace may be freed.
std::vector<Prepared> prepare(const Trace& trace);

/// For each of these events of the trace, the first row of `heap` that comes at it or after it; count() if none does.
std::vector<std::uint32_t> rows_after(const Prepared& heap, std::span<const std::uint32_t> events);

/// Prepares a trace from its events, in order and in batches of any size. Memory: rows not yet taken, and live
/// allocations.
class Preparation {
 public:
  /// `tables` may grow, and must outlive this object. `allocations`: if their number is known, 4 bytes for each replace
  /// a map of the live ones.
  explicit Preparation(const Tables& tables, std::size_t allocations = 0);
  Preparation(Preparation&&) noexcept;
  Preparation& operator=(Preparation&&) noexcept;
  ~Preparation();

  /// What a heap held at its beginning; call before its events are added, else it is ignored, as it is if the heap's
  /// first events differ from it.
  void start_from(const InitialHeap& initial);

  /// `first_event`: the index in the trace of the first of `events`.
  void add(const EventColumns& events, std::uint32_t first_event);

  /// The rows made since the last call, as columns of a heap whose other members must not be read. Null if there are
  /// none. Valid until the next call.
  const Prepared* take_rows(HeapId heap);

  /// The heaps that prepare() has entries for, complete except for step_ends. Call once, at the end.
  std::vector<Prepared> finish() &&;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace memreel
