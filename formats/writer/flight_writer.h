// SPDX-License-Identifier: Apache-2.0
// The flight recorder: writes a trace indefinitely, in bounded space. docs/flight-recorder.md explains it.
//
// At any moment the file is a valid trace: what was live at some instant, with the original times and stacks, sums of
// what happened before (FoldedHistory), and all events since. When it reaches half of its maximum length, a second
// trace is started next to it, from that instant on, and events are written to both. When there is no more room for
// both, the second is atomically renamed over the first. So nothing is ever read back or moved, and the latest events
// fill between a third and two thirds of the space.
#pragma once

#include <filesystem>
#include <map>
#include <memory>

#include "formats/model/flat_map.h"
#include "formats/writer/flight_generation.h"
#include "formats/writer/trace_output.h"
#include "formats/writer/trace_writer.h"

namespace memreel {

struct FlightLimits {
  static constexpr Bytes least_size = 1_MiB;

  Bytes size = 256_MiB;             // of all files together; at least least_size
  std::optional<Nanoseconds> span;  // how long events are kept, if `size` allows; none: as long as it allows
};

/// Memory: about 250 bytes for each live allocation, 120 for each of up to 2^20 sums, and tables with every distinct
/// row ever interned.
class FlightWriter final : public TraceOutput {
 public:
  /// `file` is empty and at `path`. The second trace is next to it, with ".next" appended to the name.
  FlightWriter(std::unique_ptr<LiveFile> file, std::filesystem::path path, unsigned mode, Header header,
               const FlightLimits& limits);
  ~FlightWriter() override;

  AllocationId append(const Event& event) override;
  void add_initial_heap(InitialHeap initial) override;
  HeapState state_of(HeapId heap) const override;
  void set_losses(const Losses& losses) override;
  Result<void> flush() override;
  /// Fails if the disk is still full.
  Result<void> finish() override;

  /// The file with everything flushed so far. Valid until another function is called.
  LiveFile& file() { return current_->file(); }
  /// Whether the disk is full. Then the file stays as it is, later events are only summed up, and each flush() tries to
  /// begin a new trace with what is live.
  bool awaits_space() const { return current_->overflow() == Overflow::disk; }
  Bytes disk_used() const { return budget_.used(); }
  std::uint64_t rotations() const { return rotations_; }

 private:
  /// A live allocation. Its ID for callers is its index in kept_.
  struct Kept {
    bool used = false, pending = false;
    OriginId origin = OriginId::none;
    StackId stack = StackId::none;
    Address address;
    Bytes size;
    Nanoseconds born{}, freed{};
    AllocationId current = AllocationId::none, next = AllocationId::none;  // in the two traces
  };
  using SegmentPlace = std::pair<HeapId, Address>;

  HeapId heap_of(OriginId origin) const { return tables()[origin].heap; }
  Bytes& live_of(HeapId heap);
  AllocationId append_alloc(const Event& event);
  AllocationId append_free(const Event& event);
  void append_other(const Event& event);
  /// The index of the allocation that `event` frees; absent if unknown.
  std::uint32_t freed_by(const Event& event) const;
  void end(std::uint32_t slot);

  /// Starts the second trace, and renames it over the first, when due.
  void rotate_when_due();
  /// If the disk is full, there is no second trace after it, and no error.
  void begin_next();
  void drop_next();
  /// The disk is full.
  void give_up_next();
  bool may_begin_next() const;
  bool is_established() const;
  void restate(FlightGeneration& generation);
  void restate_segments(std::vector<Event>& events);
  void take_over();
  void tell_losses(FlightGeneration& generation);

  std::filesystem::path path_, next_path_;
  unsigned mode_;
  Header header_;
  FlightLimits limits_;
  WriterOptions options_;
  std::uint64_t most_restated_;
  DiskBudget budget_;
  FoldedTotals totals_;
  Losses losses_;
  Result<void> status_;
  std::unique_ptr<FlightGeneration> current_, next_;
  std::uint64_t rotations_ = 0;
  std::optional<std::chrono::steady_clock::time_point> found_full_;  // the disk, when a second trace had no space
  std::chrono::steady_clock::time_point next_began_;

  std::vector<Kept> kept_;
  std::vector<std::uint32_t> empty_;
  FlatMap<HeapAddress, HeapAddressHash> by_place_;
  std::vector<Bytes> live_;                                     // by heap
  std::map<SegmentPlace, Nanoseconds> segment_times_;           // when it was acquired; some are gone since restate()
  std::map<std::pair<EventKind, OriginId>, Event> last_words_;  // settings and samples
  OpenRanges ranges_;
  std::uint64_t events_ = 0, events_before_next_ = 0;
  std::uint32_t unchecked_ = 0;  // events since rotate_when_due()
  Nanoseconds latest_{};
};

}  // namespace memreel
