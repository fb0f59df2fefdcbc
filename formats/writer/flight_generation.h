// One of the traces that a flight recorder writes in parallel.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "formats/model/event.h"
#include "formats/model/folded.h"
#include "formats/writer/trace_writer.h"

namespace memreel {

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
  void set_folded(FoldedHistory folded);
  TraceWriter& writer() { return writer_; }

  /// What the heap, by its ID in `all`, holds from devices.
  Bytes reserved(HeapId heap) { return writer_.state_of(heaps_[heap]).reserved; }

  /// What is held from devices, with the IDs of `all`.
  std::vector<LiveSegment> segments() const;

  LiveFile& file() { return *file_; }
  std::uint64_t size() const { return file_->size(); }
  /// Something did not fit. The file is intact, but nothing more is added.
  bool overflowed() const { return overflowed_; }

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
  std::vector<StackId> callees_;          // while a stack is copied
};

}  // namespace memreel
