// SPDX-License-Identifier: Apache-2.0
// One of the traces that a flight recorder writes in parallel.
#pragma once

#include <memory>

#include "formats/model/flat_map.h"
#include "formats/model/tables.h"
#include "formats/model/trace.h"
#include "formats/writer/trace_writer.h"

namespace memreel {

// A flight recorder's sums over everything it has seen, in bounded memory however long it runs.

/// Per heap, stack and interval. Intervals start at a second and lengthen whenever there are more than most_intervals
/// of them, or more rows than there is room for: 10 s, 1 min, 10 min, 1 h (from the fifth to the thirtieth day), 6 h, 1
/// day, and then four times as long each. If a single interval has too many stacks, the least active are summed up
/// without a stack.
class FoldedTotals {
 public:
  static constexpr std::uint32_t most_intervals = 720;

  /// `most_rows`: 16 or more; each takes about 120 bytes.
  explicit FoldedTotals(std::size_t most_rows) : most_rows_(most_rows) {}

  // Times may go back slightly: what belongs to an earlier interval counts towards the latest.
  void allocated(Nanoseconds time, HeapId heap, StackId stack, Bytes size);
  void freed(Nanoseconds time, HeapId heap, StackId stack, Bytes size);

  /// The sums so far, in the order of FoldedHistory, with at most `most_rows` rows.
  FoldedHistory history(Nanoseconds until);

 private:
  struct Site {
    HeapId heap = HeapId::none;
    StackId stack = StackId::none;
    friend bool operator==(const Site&, const Site&) = default;
  };
  struct SiteHash {
    std::uint64_t operator()(const Site& site) const {
      return mix_bits((std::uint64_t{index(site.heap)} << 32U) | index(site.stack));
    }
  };

  FoldedRow& row(Nanoseconds time, Site site);
  void close_interval();
  /// Merges until there are few enough intervals and rows.
  void shrink();
  void widen();
  void forget_smallest_stacks();

  std::size_t most_rows_;
  bool began_ = false;
  Nanoseconds begin_{}, width_{std::chrono::seconds(1)};
  std::vector<FoldedRow> closed_;    // of earlier intervals, sorted
  std::vector<FoldedRow> open_;      // of the latest interval
  FlatMap<Site, SiteHash> in_open_;  // the index of each site in it
  std::uint32_t latest_ = 0;
};

// The ranges that a program's threads have begun and not ended.

/// Pairs marks as readers do: an end closes its thread's latest open range of that name, or nothing if there is none.
/// Bounded: `deepest` ranges per thread, `most` in total.
class OpenRanges {
 public:
  static constexpr std::size_t deepest = 64, most = 1024;

  /// `mark` is a mark event with the IDs of `tables`, which must be consistent across calls.
  void see(const Event& mark, const Tables& tables);

  /// Adds the marks that began the open ranges, in order within each thread.
  void append_to(std::vector<Event>& events) const;

 private:
  struct Range {
    StringId name = StringId::none;
    Event begin;
  };

  std::vector<std::vector<Range>> by_thread_;
  std::size_t count_ = 0;
};

/// The disk space for all files of a flight recorder.
class DiskBudget {
 public:
  explicit DiskBudget(Bytes limit) : limit_(limit) {}

  /// False if there is no room; nothing is taken then.
  bool take(std::size_t bytes) {
    if (bytes > limit_.count - used_) return false;
    used_ += bytes;
    return true;
  }
  void give_back(std::uint64_t bytes) { used_ -= bytes; }
  Bytes limit() const { return limit_; }
  Bytes used() const { return {used_}; }

 private:
  Bytes limit_;
  std::uint64_t used_ = 0;
};

/// What had no room for something.
enum class Overflow : std::uint8_t { none, budget, disk };

/// A trace with its own tables, which have only the rows that it refers to. Callers use the IDs of the common tables
/// `all`, which outlive it.
class FlightGeneration {
 public:
  FlightGeneration(const Tables& all, std::unique_ptr<LiveFile> file, DiskBudget& budget, const Header& header,
                   const WriterOptions& options);
  FlightGeneration(const FlightGeneration&) = delete;
  FlightGeneration& operator=(const FlightGeneration&) = delete;
  /// Returns its share of the budget: the file is about to be removed or replaced.
  ~FlightGeneration();

  /// `event` has the IDs of `all`, except its allocation, which is this trace's.
  AllocationId append(Event event);
  /// Its IDs are those of `all`.
  void add_initial_heap(InitialHeap initial);
  void set_folded(FoldedHistory folded);
  TraceWriter& writer() { return writer_; }

  /// What the heap, by its ID in `all`, holds from devices.
  Bytes reserved(HeapId heap) { return writer_.state_of(heaps_[heap]).reserved; }

  /// What is held from devices, with the IDs of `all`.
  std::vector<LiveSegment> segments() const;

  LiveFile& file() { return *file_; }
  std::uint64_t size() const { return file_->size(); }
  /// Why something did not fit. The file is intact, but nothing more is added.
  Overflow overflow() const { return overflow_; }
  bool overflowed() const { return overflow_ != Overflow::none; }

  /// The trace's initial state: what was live at `until`.
  struct Base {
    Nanoseconds until{};
    std::uint64_t size = 0;    // bytes of the file
    std::uint64_t folded = 0;  // earlier events that are not in the trace
    std::uint64_t left_out = 0;
  };
  Base base;

 private:
  /// This trace's IDs by those of `all`; 0: not yet present.
  template <class Id>
  class Known {
   public:
    Id& operator[](Id id) {
      if (index(id) >= ids_.size()) ids_.resize(index(id) + std::size_t{1});
      return ids_[index(id)];
    }

   private:
    std::vector<Id> ids_;
  };

  StringId here(StringId id);
  ModuleId here(ModuleId id);
  FrameId here(FrameId id);
  StackId here(StackId id);
  HeapId here(HeapId id);
  PoolId here(PoolId id);
  StreamId here(StreamId id);
  ThreadId here(ThreadId id);
  OriginId here(OriginId id);
  MarkId here(MarkId id);
  SettingsId here(SettingsId id);

  const Tables& all_;
  DiskBudget& budget_;
  Overflow overflow_ = Overflow::none;
  LiveFile* file_;
  TraceWriter writer_;
  Known<StringId> strings_;
  Known<ModuleId> modules_;
  Known<FrameId> frames_;
  Known<StackId> stacks_;
  Known<HeapId> heaps_;
  Known<PoolId> pools_;
  Known<StreamId> streams_;
  Known<ThreadId> threads_;
  Known<OriginId> origins_;
  Known<MarkId> marks_;
  Known<SettingsId> settings_;
  std::vector<OriginId> origins_of_all_;  // by those of this trace
  std::vector<StackId> callees_;          // while a stack is copied
};

}  // namespace memreel
