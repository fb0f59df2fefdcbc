// SPDX-License-Identifier: Apache-2.0
// Where a recorder or an importer writes events: a trace as a file (trace_writer.h) or in memory (trace_in_memory.h),
// or a flight recorder's (flight_writer.h).
#pragma once

#include <functional>
#include <memory>

#include "formats/model/live_set.h"
#include "formats/model/python_holders.h"
#include "formats/model/result.h"
#include "formats/model/tables.h"
#include "formats/model/trace.h"

namespace memreel {

class Interner;

/// One thread at a time. Events are appended in the order they happened; their times need not be monotonic.
class TraceOutput {
 public:
  TraceOutput(const TraceOutput&) = delete;
  TraceOutput& operator=(const TraceOutput&) = delete;
  virtual ~TraceOutput();

  // Interning: equal rows get equal IDs, and a row with only default values gets ID 0. Amortised O(1). The IDs inside a
  // row must come from this output. Texts are cut at 1 MiB.
  StringId intern(std::string_view text);
  ModuleId intern(const Module& module);
  FrameId intern(const Frame& frame);
  StackId intern(const Stack& stack);
  HeapId intern(const Heap& heap);
  PoolId intern(const Pool& pool);
  StreamId intern(const Stream& stream);
  ThreadId intern(const Thread& thread);
  OriginId intern(const Origin& origin);
  MarkId intern(const Mark& mark);
  SettingsId intern(const Settings& settings);

  const Tables& tables() const;

  /// Adds an event. Events of kind `unknown` are ignored, as are fields that a kind does not have. For `alloc`,
  /// `event.allocation` is ignored and the assigned ID is returned, which identifies the allocation until it is freed.
  /// For a free, `allocation` may be none: it is then looked up by the heap of `origin` and `address`, and if nothing
  /// is live there the event is kept unchanged and counted as an unmatched free. Returns the affected allocation, or
  /// none.
  virtual AllocationId append(const Event& event) = 0;

  /// What a heap held when its recording began; written before its events. IDs are this output's. Call before the
  /// heap's first event.
  virtual void add_initial_heap(InitialHeap initial) = 0;

  /// What `heap` holds after the events appended so far.
  virtual HeapState state_of(HeapId heap) const = 0;

  /// The trace's total losses; written with the next block, or by finish(). Unmatched frees are also counted here: the
  /// larger of the two numbers is written.
  virtual void set_losses(const Losses& losses) = 0;

  /// Writes the events appended so far to the file, so that a reader finds them there, even after a crash. Does nothing
  /// if there are none.
  virtual Result<void> flush() = 0;

  /// flush(), then completes the file. The output must not be used afterwards.
  virtual Result<void> finish() = 0;

 protected:
  TraceOutput();
  TraceOutput(TraceOutput&&) noexcept;
  TraceOutput& operator=(TraceOutput&&) noexcept;

  Interner& interner() { return *interner_; }
  const Interner& interner() const { return *interner_; }

 private:
  std::unique_ptr<Interner> interner_;
};

/// What an importer writes to: a whole history.
class ImportOutput : public TraceOutput {
 public:
  /// The allocation in `heap` at exactly `address`: requested and not completed. Else none.
  virtual AllocationId live_at(HeapId heap, Address address) const = 0;

  /// Before an allocation: ends what is live at its address, whose end is not in the source. Whether anything was.
  bool end_unseen(const Event& next) {
    const AllocationId before = live_at(tables()[next.origin].heap, next.address);
    if (before == AllocationId::none) return false;
    append({.kind = EventKind::free_requested, .origin = next.origin, .allocation = before, .time = next.time});
    return true;
  }

  /// Written by finish().
  virtual void set_python_holders(PythonHolders holders) = 0;
};

/// Begins the output of an import, which is called once, when its header is known. The output outlives the import.
using BeginOutput = std::function<ImportOutput&(const Header& header)>;

}  // namespace memreel
