// SPDX-License-Identifier: Apache-2.0
// Where hooks deliver what they observe. Everything that watches the program (CUDA calls, PyTorch's reports) calls
// emit(); the writing thread drains.
#pragma once

#include <atomic>
#include <span>

#include "collector/interned/interned_bytes.h"
#include "collector/options/options.h"
#include "collector/python/frame_chain.h"
#include "collector/recorder/record.h"
#include "collector/recorder/thread_ring.h"
#include "collector/recorder/usage.h"
#include "collector/stacks/module_table.h"
#include "collector/stacks/stack_tree.h"
#include "collector/stacks/unwind.h"

namespace memreel::agent {

/// A Python frame as text.
struct FrameText {
  std::string function, file;
  std::uint32_t line = 0;
  std::string module_type, module_name;  // for a call of an nn.Module: its class, and the program's name for it
  std::uintptr_t module_id = 0;
};

/// Access to Python frames. The first four run in hooks: no lock, no allocation, no GIL.
struct PythonFrames {
  /// Updates `chain` to the calling thread's frames, and returns their number (FrameChain::follow).
  std::uint64_t (*walk)(python::FrameChain& chain) = nullptr;
  /// Writes the frames that walk() just found, innermost first, as many as fit; returns how many.
  std::size_t (*frames)(const python::FrameChain& chain, std::span<stacks::PythonFrame> frames) = nullptr;
  /// The ranges of the evaluator's code.
  std::span<const stacks::AddressRange> (*evaluator)() = nullptr;
  /// The interpreter's code, which is left out of stacks; empty if it can't be told from the program's.
  stacks::AddressRange (*plumbing)() = nullptr;
  /// Called by the writing thread for frames that frames() returned; once for each, soon after.
  void (*describe)(stacks::FrameKey frame, FrameText& text) = nullptr;
};

/// Never destroyed while the program's threads may be in it.
///
/// Code that runs at every event is marked [[gnu::hot]], here and in its callees, so that it is laid out in a few
/// pages: a processor's TLB holds only a few hundred.
class Recorder {  // NOLINT(clang-analyzer-optin.performance.Padding): what threads share has a line of its own
 public:
  /// `code`: where CodeMap looks up modules; for tests.
  explicit Recorder(const Options& options, stacks::CodeMap::Source code = stacks::CodeMap::Source::loader);
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // Any thread, at any time. No lock, no allocation, no system call other than reading the clock; except that a
  // thread's first record takes memory from the system, a half-full ring wakes the writing thread, and a full ring
  // waits for it if the options say so.

  /// The calling thread's stack. It starts in the agent, whose frames are left out when it is shown. None if stacks are
  /// not recorded, or there was no room for this one.
  stacks::StackKey capture_stack();

  /// Assigns `record` its sequence number and, unless it has a time in ticks of clock(), its time. Returns the sequence
  /// number; 0 if it was lost.
  std::uint64_t emit(const Record& record);

  /// The same, with capture_stack() as its stack.
  std::uint64_t emit_with_stack(const Record& record);

  /// The clock for the times of records.
  const Clock& clock() const { return clock_; }

  /// Names that records refer to by number. Of the process, as the program keeps such numbers (NVTX's registered
  /// strings, open ranges, heaps) for longer than a recorder: another one follows when it forks, or when it is attached
  /// to again.
  static InternedBytes& names();

  /// The keys of PyTorch's pools, each two numbers of 8 bytes. Apart from names, which a program may have any number
  /// of.
  InternedBytes& pool_keys() { return pool_keys_; }

  /// The number of such a key: 0 for that of the default pool, `lost_pool` for all those that there is no room for.
  std::uint32_t number_of_pool(const std::array<std::uint64_t, 2>& key) {
    if (key == std::array<std::uint64_t, 2>{}) return 0;
    const std::uint32_t number = pool_keys_.number_of({std::as_bytes(std::span(key))});
    return number != 0 ? number : lost_pool;
  }
  static constexpr std::uint32_t lost_pool = 0xFFFF'FFFF;

  /// What the program's heaps hold after everything this thread has done; resets the peaks if `peaks` says so. Unlike
  /// everything else here, it waits for the writing thread. Empty if that does not answer for seconds.
  MemoryUsage ask_usage(Usage::Peaks peaks);

  /// Waits until everything this thread has done is in the file; for seconds at most, and not if nothing is written.
  void ask_flush();

  /// From now on stacks have the Python frames from `frames`, which must stay alive. Null: no more.
  void set_python(const PythonFrames* frames) { python_.store(frames, std::memory_order_release); }

  // The writing thread.

  /// Nothing is drained until attend(): until then records wait, up to a million of them in addition to those in rings;
  /// any more are lost. Call it before any thread records.
  void wait_for_attention() { attended_.store(false, std::memory_order_release); }
  void attend();

  enum class Draining : std::uint8_t {
    in_order,    // records that no other can precede any more
    everything,  // all records: for the last time, when a thread may have been stopped halfway
  };
  /// Appends records in order.
  void drain(std::vector<Record>& batch, Draining how = Draining::in_order);

  /// Everything drained is now counted in usage().
  void settle() { usage_.settle(drained_); }
  Usage& usage() { return usage_; }

  /// Whether a thread waits for a flush(); and tells it that everything drained is in the file.
  bool is_flush_asked() const {
    return flush_asked_.load(std::memory_order_acquire) > flushed_.load(std::memory_order_relaxed);
  }
  void flushed() { flushed_.store(drained_, std::memory_order_release); }

  /// Waits until a ring is half full, wake() is called, or `period` has passed.
  void wait(std::chrono::milliseconds period) { wakeup_.wait(period); }
  void wake() { wakeup_.wake(); }

  /// From now on every record is refused and no thread waits for room. Threads may still be inside.
  void close() { open_.store(false, std::memory_order_release); }

  /// close(), but refused records count as lost: nothing can be written any more.
  void fail() {
    counts_refused_.store(true, std::memory_order_release);
    close();
  }

  /// After close(), once nothing is drained any more: returns the rings' memory to the system until it is needed again.
  void rest();

  /// After the same: accepts records again, for another trace. Records that threads left unfinished are dropped. Reuses
  /// the memory of rings and stacks, so repeated recordings take no more of it. False if little room is left in it, or
  /// `options` need different rings: use a new recorder.
  bool reopen(const Options& options);

  std::uint64_t lost() const;
  /// Time that the program's threads spent in here, estimated from samples: ns, all threads together.
  std::uint64_t cost_ns() const;
  std::size_t ring_count() const;
  const PythonFrames* python() const { return python_.load(std::memory_order_acquire); }
  const stacks::StackTree& stacks() const { return stacks_; }
  stacks::Unwinder& unwinder() { return unwinder_; }

 private:
  /// `stack_of` makes the record's stack from the thread's ring.
  template <class StackOf>
  std::uint64_t emit_with(const Record& record, StackOf stack_of);
  /// Null if there is no memory for a ring, or no room to record its new owner.
  ThreadRing* ring_of_thread();
  [[gnu::noinline]] ThreadRing* begin_thread();
  ThreadRing* take_ring();
  /// False if it stays full. (The rare case is a separate function, as above, to keep hooks short.)
  bool await_room(ThreadRing& ring);
  std::uint64_t put(ThreadRing& ring, const Record& record, stacks::StackKey stack);
  stacks::StackKey capture(ThreadRing& ring);
  [[gnu::noinline]] bool wait_for_room(ThreadRing& ring);
  bool set_aside();
  [[gnu::noinline]] std::uint64_t refuse();
  stacks::StackKey insert(CaptureState& state, std::size_t native, const PythonFrames* frames);

  std::uint64_t number_;
  std::uint32_t ring_events_, depth_;
  WhenFull when_full_;
  std::atomic<bool> open_ = true;
  std::atomic<bool> counts_refused_ = false;
  std::atomic<bool> attended_ = true;  // being drained
  std::atomic_flag setting_aside_;     // held while reading rings before that
  std::vector<Record> aside_;          // records that did not fit in rings before that, in order
  std::atomic<const PythonFrames*> python_ = nullptr;
  std::atomic<ThreadRing*> rings_ = nullptr;  // all rings; only grows
  std::atomic<std::uint64_t> lost_ = 0;       // of threads without a ring
  Clock clock_;
  stacks::StackTree stacks_;
  stacks::Unwinder unwinder_;
  InternedBytes pool_keys_{1U << 18U, std::size_t{8} << 20U};
  Wakeup wakeup_;
  Usage usage_;
  std::atomic<std::uint64_t> flush_asked_ = 0, flushed_ = 0;  // records below this sequence number
  std::uint64_t drained_ = 0;  // the writing thread's: below this number no record is on its way any more
  alignas(64) std::atomic<std::uint64_t> sequence_ = 1;
};

/// This process's recorder while it records; else null.
Recorder* recorder();
void set_recorder(Recorder* recorder);

/// The same for annotations, which may come before the call that starts the recording: such records wait in the
/// recorder that it will use. Null if nothing will be recorded.
Recorder* recorder_for_annotations();

/// The recorder for annotations while nothing is recorded yet; null: none.
void set_early_recorder(Recorder* recorder);

/// Sets the function that makes it when it is first needed; null: none.
void set_maker_of_recorders(Recorder* (*make)());

}  // namespace memreel::agent
