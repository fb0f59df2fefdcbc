// One of the traces that a flight recorder writes side by side.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "formats/model/event.h"
#include "formats/model/folded.h"
#include "formats/writer/trace_writer.h"

namespace memreel {

/// What the files of a flight recorder may take together.
class DiskBudget {
 public:
  explicit DiskBudget(Bytes limit) : limit_(limit) {}

  /// False when there is no room: nothing is taken then.
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

/// A trace with tables of its own, of which it has only the rows that it refers to. Rows are named by the ids of the
/// tables of all: `all`, which outlives it.
class FlightGeneration {
 public:
  FlightGeneration(const Tables& all, std::unique_ptr<LiveFile> file, DiskBudget& budget, const Header& header,
                   const WriterOptions& options);
  FlightGeneration(const FlightGeneration&) = delete;
  FlightGeneration& operator=(const FlightGeneration&) = delete;
  /// What it took of the budget is free again: the file is to be removed or replaced.
  ~FlightGeneration();

  /// `event` has the ids of `all`, but its allocation is one of this trace's.
  AllocationId append(Event event);
  void set_folded(FoldedHistory folded);
  TraceWriter& writer() { return writer_; }

  /// What the heap, by its id in `all`, holds from devices.
  Bytes reserved(HeapId heap) { return writer_.state_of(heaps_[heap]).reserved; }

  /// What is held from devices, with the ids of `all`.
  std::vector<LiveSegment> segments() const;

  LiveFile& file() { return *file_; }
  std::uint64_t size() const { return file_->size(); }
  /// Something found no room. What the file has is sound, but nothing is added any more.
  bool overflowed() const { return overflowed_; }

  /// What the trace began with: what was live at `until`.
  struct Base {
    Nanoseconds until{};
    std::uint64_t size = 0;    // bytes of the file
    std::uint64_t folded = 0;  // events before it that are not there
    std::uint64_t left_out = 0;
  };
  Base base;

 private:
  /// Ids of this trace by those of all; 0: not there yet.
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
  bool overflowed_ = false;
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
  std::vector<StackId> callees_;          // while a stack is taken over
};

}  // namespace memreel
