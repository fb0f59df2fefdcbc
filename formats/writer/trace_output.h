// Where a recorder puts events in order: a trace (trace_writer.h), or one that forgets its oldest (flight_writer.h).
#pragma once

#include <memory>
#include <string_view>

#include "formats/model/event.h"
#include "formats/model/live_set.h"
#include "formats/model/result.h"
#include "formats/model/tables.h"
#include "formats/model/trace.h"

namespace memreel {

class Interner;

/// One thread at a time. Events are appended in the order in which they happened; their times need not be monotone.
class TraceOutput {
 public:
  TraceOutput(const TraceOutput&) = delete;
  TraceOutput& operator=(const TraceOutput&) = delete;
  virtual ~TraceOutput();

  // Interning: equal rows get equal ids, and a row of nothing but defaults gets id 0. Amortised O(1). The ids inside a
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

  /// Adds an event. Events of kind `unknown` are ignored; fields that a kind does not have are not kept. For `alloc`,
  /// `event.allocation` is ignored and the id given to it is returned, which names it until it is freed. For a free,
  /// `allocation` may be none: it is then found from the heap of `origin` and `address`, and when nothing is live there
  /// the event is kept as it is and counted as an unmatched free. Returns the allocation concerned, or none.
  virtual AllocationId append(const Event& event) = 0;

  /// What `heap` holds after the events appended so far.
  virtual HeapState state_of(HeapId heap) const = 0;

  /// What the trace lacks in all; written with the next block, or by finish(). Unmatched frees are counted here as
  /// well: the larger of the two numbers is written.
  virtual void set_losses(const Losses& losses) = 0;

  /// Puts the events appended so far into the file, so that a reader (or a crash) finds them there. Does nothing when
  /// there are none.
  virtual Result<void> flush() = 0;

  /// flush(), and what completes the file. Not to be used afterwards.
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

}  // namespace memreel
