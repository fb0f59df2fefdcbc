// Where hooks leave what they saw. Everything that watches the program (CUDA's calls, PyTorch's reports) calls emit();
// the writing thread drains.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "collector/interned/interned_bytes.h"
#include "collector/options/options.h"
#include "collector/python/frame_chain.h"
#include "collector/recorder/clock.h"
#include "collector/recorder/record.h"
#include "collector/recorder/thread_ring.h"
#include "collector/recorder/usage.h"
#include "collector/recorder/wakeup.h"
#include "collector/stacks/merge.h"
#include "collector/stacks/module_table.h"
#include "collector/stacks/stack_tree.h"
#include "collector/stacks/unwind.h"

namespace memreel::agent {

/// A Python frame in words.
struct FrameText {
  std::string function, file;
  std::uint32_t line = 0;
  std::string module_type, module_name;  // of a call of an nn.Module: its class, and what the program calls it
  std::uintptr_t module_id = 0;
};

/// Who knows Python's frames. The first four are called in hooks: no lock, no allocation, no GIL.
struct PythonFrames {
  /// Makes `chain` that of the calling thread's frames, and returns their number: see there.
  std::uint64_t (*walk)(python::FrameChain& chain) = nullptr;
  /// Writes the frames that walk() has just found, innermost first, as many as fit; returns how many.
  std::size_t (*frames)(const python::FrameChain& chain, std::span<stacks::PythonFrame> frames) = nullptr;
  /// Where the evaluator's code is.
  std::span<const stacks::AddressRange> (*evaluator)() = nullptr;
  /// The code of the interpreter, which is left out of stacks; empty when that can't be told from the program's.
  stacks::AddressRange (*plumbing)() = nullptr;
  /// Called by the writing thread, for frames that frames() gave; once for each, soon after.
  void (*describe)(stacks::FrameKey frame, FrameText& text) = nullptr;
};

/// Never destroyed while the program's threads may be in it.
///
/// What runs at every event is marked [[gnu::hot]], here and in what it calls: so it stands together in a few pages, of
/// which a processor knows only some hundred at once.
class Recorder {  // NOLINT(clang-analyzer-optin.performance.Padding): what threads share has a line of its own
 public:
  /// `code`: who is asked for modules, see CodeMap; for tests.
  explicit Recorder(const Options& options, stacks::CodeMap::Source code = stacks::CodeMap::Source::loader);
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // Any thread, at any time. No lock, no system call but reading the clock at most, no allocation; except that a
  // thread's first record takes memory from the system, that a ring half full wakes the writing thread, and that a full
  // ring waits for it when the options say so.

  /// The calling thread's stack. It begins in this library, whose frames are left out when it is shown. None when
  /// stacks are not recorded, or there was no room for this one.
  stacks::StackKey capture_stack();

  /// Gives `record` its place in the order of all records and, unless it has one in ticks of clock(), its time. Returns
  /// its sequence number; 0 when it was lost.
  std::uint64_t emit(const Record& record);

  /// The same, with capture_stack() for its stack.
  std::uint64_t emit_with_stack(const Record& record);

  /// What it asks for the times of records.
  const Clock& clock() const { return clock_; }

  /// Names that records refer to by their number.
  InternedBytes& names() { return names_; }

  /// What the program's heaps hold after everything that this thread has done; and from now on the peaks are new, when
  /// `peaks` says so. Waits for the writing thread, unlike all else here. Empty when that does not get on for seconds.
  MemoryUsage ask_usage(Usage::Peaks peaks);

  /// From now on stacks have the Python frames that `frames` knows, which must stay. Null: no more.
  void set_python(const PythonFrames* frames) { python_.store(frames, std::memory_order_release); }

  // The writing thread.

  /// Nobody drains before attend(): until then records wait, a million of them at most beside those in rings, and what
  /// comes beyond is lost. To be called before any thread records.
  void wait_for_attention() { attended_.store(false, std::memory_order_release); }
  void attend();

  enum class Draining : std::uint8_t {
    in_order,    // records that no other can precede any more
    everything,  // all that there is: the last time, when a thread may have been stopped on its way
  };
  /// Appends records in order.
  void drain(std::vector<Record>& batch, Draining how = Draining::in_order);

  /// Everything that was drained is counted in usage().
  void settle() { usage_.settle(drained_); }
  Usage& usage() { return usage_; }

  /// Waits until a ring is half full, wake() is called, or `period` is over.
  void wait(std::chrono::milliseconds period) { wakeup_.wait(period); }
  void wake() { wakeup_.wake(); }

  /// From now on every record is refused and nobody waits for room. Threads may still be inside.
  void close() { open_.store(false, std::memory_order_release); }

  /// close(), but what is refused counts as lost: nothing can be written any more.
  void fail() {
    counts_refused_.store(true, std::memory_order_release);
    close();
  }

  /// After close(), once nobody drains any more: gives the rings' memory back to the system until it is needed again.
  void rest();

  /// The same: takes records again, for another trace. What threads left behind on
  /// their way is dropped. The memory that rings and stacks have is used again, so that recording again and again takes
  /// no more of it. False when there is little room left in it, or `options` ask for other rings: use a new recorder.
  bool reopen(const Options& options);

  std::uint64_t lost() const;
  /// Time that the program's threads spent in here, estimated from samples: ns of all threads together.
  std::uint64_t cost_ns() const;
  std::size_t ring_count() const;
  const PythonFrames* python() const { return python_.load(std::memory_order_acquire); }
  const stacks::StackTree& stacks() const { return stacks_; }
  stacks::Unwinder& unwinder() { return unwinder_; }

 private:
  /// `stack_of` makes the record's stack of the thread's ring.
  template <class StackOf>
  std::uint64_t emit_with(const Record& record, StackOf stack_of);
  /// Null when there is no memory for one, or no room to say whose it is from now on.
  ThreadRing* ring_of_thread();
  [[gnu::noinline]] ThreadRing* begin_thread();
  ThreadRing* take_ring();
  /// False when it stays full. (The rare case is apart, as above, for hooks to be short.)
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
  std::atomic<bool> attended_ = true;  // somebody drains
  std::atomic_flag setting_aside_;     // held by whoever reads rings before that
  std::vector<Record> aside_;          // what rings had no room for before that, in order
  std::atomic<const PythonFrames*> python_ = nullptr;
  std::atomic<ThreadRing*> rings_ = nullptr;  // all of them; only grows
  std::atomic<std::uint64_t> lost_ = 0;       // without a ring
  Clock clock_;
  stacks::StackTree stacks_;
  stacks::Unwinder unwinder_;
  InternedBytes names_{1U << 16U, std::size_t{16} << 20U};
  Wakeup wakeup_;
  Usage usage_;
  std::uint64_t drained_ = 0;  // the writing thread's: below this number no record is on its way any more
  alignas(64) std::atomic<std::uint64_t> sequence_ = 1;
};

/// The recorder of this process while it records; null when it does not.
Recorder* recorder();
void set_recorder(Recorder* recorder);

/// The same for what a program says of itself, which it may do before the call that begins the recording: such records
/// wait in the recorder that it will use. Null when nothing will be recorded.
Recorder* recorder_for_annotations();

/// That recorder while nothing is recorded yet; null: there is none.
void set_early_recorder(Recorder* recorder);

/// Who makes it when it is first needed; null: nobody does.
void set_maker_of_recorders(Recorder* (*make)());

}  // namespace memreel::agent
