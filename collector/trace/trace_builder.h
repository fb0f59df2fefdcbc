// SPDX-License-Identifier: Apache-2.0
// Turns records into events of a trace: which heap an event belongs to, which allocation a free ends, what is freed
// with a context. docs/collector.md describes the heaps.
#pragma once

#include <map>
#include <set>
#include <span>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "collector/cuda/physical_memory.h"
#include "collector/recorder/record.h"
#include "collector/recorder/recorder.h"
#include "collector/stacks/module_table.h"
#include "collector/stacks/stack_tree.h"
#include "collector/torch/diverted_calls.h"
#include "collector/trace/flight_dumps.h"
#include "formats/model/flat_map.h"
#include "formats/model/trace.h"
#include "formats/writer/trace_output.h"

namespace memreel::agent {

// Custom pools (collector/include/memreel/memreel.h) as heaps of the trace.

/// Memory: what is live in the pools.
class OwnPools {
 public:
  explicit OwnPools(TraceOutput& writer) : writer_(&writer) {}

  /// An event for a record, without time, stack, stream and thread, which are the record's.
  struct Step {
    HeapId heap = HeapId::none;
    Event event;
    bool implied = false;  // not a call of the program's: the record's stack is not its
  };

  /// `record` is in Space::own. `driver` is the driver's heap on the record's device, `name` the name for its name
  /// number. The result is valid until the next call.
  const std::vector<Step>& steps(const Record& record, HeapId driver, std::string_view name);

 private:
  struct Pool {
    HeapId heap = HeapId::none;
    std::unordered_map<std::uint64_t, std::uint64_t> segments;  // address -> size
    std::unordered_set<std::uint64_t> live, requested;          // addresses: in use; free requested but not completed
  };

  using Pools = std::unordered_map<std::uint64_t, Pool>;

  Pools::iterator pool_at(std::uint64_t address);
  Pool& open(std::uint64_t number, HeapId heap);
  void close(Pools::iterator pool);
  Pool& make(std::uint64_t number, std::uint64_t parent, std::int16_t device, HeapId driver, std::string_view name);
  Pool& unknown(const Record& record, HeapId driver);
  bool is_full() const;
  void step(const Pool& pool, Event event, bool implied = false) { steps_.push_back({pool.heap, event, implied}); }
  void end_allocation(Pool& pool, std::uint64_t address, bool implied = false);
  void complete(Pool& pool, std::uint64_t address, bool implied = false);
  void destroy(Pool& pool);

  TraceOutput* writer_;
  Pools pools_;
  std::set<std::tuple<std::int16_t, StringId, HeapId>> heaps_;  // of these, by device and name ...
  std::unordered_map<HeapId, std::size_t> sharing_;             // ... and how many pools have each
  std::unordered_map<std::uint64_t, HeapId> gone_;              // destroyed
  std::vector<Step> steps_;
};

// The reports of PyTorch's allocator (collector/torch/allocator_trace.h) as heaps of the trace: one per device, as in
// an imported PyTorch history.

/// The name of a device's torch heap.
inline constexpr std::string_view torch_heap_name = "torch.cuda";

class TorchHeaps {
 public:
  explicit TorchHeaps(TraceOutput& writer) : writer_(&writer) {}

  /// The events for a record, without time and stack, which are the record's. `record` is in Space::torch_traced and
  /// comes from `thread`, `driver` is the driver's heap on its device. The result is valid until the next call.
  const std::vector<Event>& events(const Record& record, ThreadId thread, HeapId driver, const Pool& pool);

 private:
  HeapId heap_of(std::int16_t device, HeapId driver);

  TraceOutput* writer_;
  std::unordered_map<std::int16_t, HeapId> heaps_;  // by device
  std::vector<Event> events_;
};

// Stacks in the trace: nodes of the in-memory tree become table rows when first used.

// The forward-pass operator behind an allocation in the backward pass.

/// The frame between a backward-pass stack and the stack of the forward operator.
inline constexpr std::string_view backward_frame = "[backward of]";

/// Remembers the latest operators of the forward pass: 2^16 sequence numbers. The few whose numbers came from two
/// threads are left out.
class ForwardStacks {
 public:
  explicit ForwardStacks(TraceOutput& writer) : writer_(&writer), operators_(kept) {}

  /// `thread` allocated in the forward pass after making the node `sequence`. Its first stack with that number is the
  /// operator's; later ones may be anything.
  void note(std::uint32_t sequence, std::uint32_t thread, StackId stack);

  /// `stack` with the stack of the operator that made the node `sequence` as its caller; `stack` itself if that is
  /// unknown.
  StackId linked(std::uint32_t sequence, StackId stack);

 private:
  static constexpr std::size_t kept = std::size_t{1} << 16U;
  struct Operator {
    std::uint32_t sequence = 0, thread = 0;
    StackId stack = StackId::none;
  };

  TraceOutput* writer_;
  std::vector<Operator> operators_;                        // by sequence number modulo `kept`
  std::map<std::pair<StackId, StackId>, StackId> linked_;  // by both stacks
};

class StackRows {
 public:
  /// Leaves out frames in `own_code`, and CUPTI's.
  StackRows(Recorder& recorder, TraceOutput& writer, stacks::AddressRange own_code);

  /// Call it often: detects modules that were loaded and unloaded.
  void refresh();

  StackId row(stacks::StackKey key);

 private:
  StackId translate(stacks::StackTree::Node node);
  FrameId native_frame(std::uintptr_t code);
  FrameId python_frame(stacks::FrameKey frame);
  StringId instance_row(const FrameText& text);
  bool is_ours(stacks::FrameKey frame) const;

  Recorder* recorder_;
  TraceOutput* writer_;
  stacks::AddressRange own_code_;
  stacks::ModuleTable modules_;
  std::vector<ModuleId> module_rows_;                                       // by the table's numbers
  std::map<std::string, std::map<std::uintptr_t, std::size_t>> instances_;  // by class: those without a name
  std::vector<StackId> rows_;                                               // by key
  std::vector<bool> known_;                                                 // whether the row is valid
  std::vector<stacks::StackKey> unknown_;  // while translating: the requested node and its callers, outwards
};

// What PyTorch's allocator held when the recording of a running program began.
//
// Its own snapshot comes some time after the recording began, and the initial state of a heap precedes its events. So
// what its trace reports waits for the snapshot. What came before the snapshot is in it and is dropped; the rest
// follows it. If the snapshot is late, or not exact, nothing is dropped, and only the blocks in it that were not seen
// to begin or end are added, without saying how the segments were divided.

/// Memory: 64 bytes for each waiting record, at most 8 MiB, and for each block of the snapshot.
class TorchStart {
 public:
  struct Segment {
    Record record;               // snapshot_segment
    std::vector<Record> blocks;  // snapshot_block, from its front
  };

  /// `asked`: there will be an end() of a snapshot; else nothing waits.
  explicit TorchStart(bool asked) : asked_(asked) {}

  // RecordKind::snapshot_begin to snapshot_end, in their order.

  void attempt() { segments_.clear(); }
  void taken() { taken_ = waiting_.size(); }
  void add(const Record& record);

  /// Whether the snapshot is exact and complete, and nothing is written yet: drops what is in it.
  bool precedes_all(bool exact);
  /// No longer asked for.
  std::vector<Segment> end();

  // Other records of the allocator's trace.

  /// False if it need not wait; then take_waiting() comes first.
  bool waits(const Record& record);
  /// In their order; empties it.
  std::vector<Record> take_waiting() { return std::exchange(waiting_, {}); }
  /// Whether something at `address` was reported since the snapshot was asked for.
  bool was_seen(std::uint64_t address) const { return seen_.contains(address); }

 private:
  bool asked_;
  bool late_ = false;                  // records no longer wait
  std::optional<std::int64_t> began_;  // the time of the first record, in ns
  std::vector<Record> waiting_;
  std::size_t taken_ = 0;  // so many of them precede the snapshot
  std::unordered_set<std::uint64_t> seen_;
  std::vector<Segment> segments_;
};

/// The initial state of the heap whose segments these are: its origins are `origins`.
InitialHeap initial_heap(HeapId heap, std::span<const TorchStart::Segment> segments, std::span<const OriginId> origins);

/// Used by one thread: the writing thread. Memory: what is live.
class TraceBuilder {
 public:
  /// `triggers` sees every event; may be null. `asks_torch`: there will be a snapshot of what PyTorch's allocator
  /// holds.
  TraceBuilder(Recorder& recorder, TraceOutput& writer, stacks::AddressRange own_code = {},
               DumpTriggers* triggers = nullptr, bool asks_torch = false);

  /// `records` continue those of earlier calls, in order.
  void add(std::span<const Record> records);

  /// Writes what still waits for an answer: none will come.
  void finish();

  std::uint64_t event_count() const { return events_; }
  /// Calls that could not be observed, and gaps in PyTorch's reports.
  std::uint64_t hook_lost() const { return hook_lost_; }
  /// How many allocations from before the recording are known.
  std::uint64_t held_before() const { return held_before_; }

 private:
  /// Addresses are unique within one of these.
  enum class Namespace : std::uint8_t { device, host, handle, torch };

  struct LiveKey {
    std::uint64_t address = 0;
    Namespace space = Namespace::device;
    friend bool operator==(const LiveKey&, const LiveKey&) = default;
  };
  struct LiveKeyHash {
    std::uint64_t operator()(const LiveKey& key) const {
      return mix_bits(key.address + static_cast<std::uint64_t>(key.space));
    }
  };

  /// What is needed of an allocation when it is freed.
  struct Live {
    AllocationId allocation = AllocationId::none;
    Record record;  // the record of its allocation
    bool used = false;
  };

  /// For stream-ordered memory.
  struct StreamPool {
    std::int16_t device = 0;  // -1: the host
    bool managed = false;
  };

  /// A range of addresses; what is mapped there is not an allocation of ours.
  struct Range {
    std::uint64_t size = 0;
    std::int16_t device = 0;
    std::uint32_t openings = 1;
    bool imported = false;  // maps another process's memory
  };

  /// What a thread freed last, until the free is known to have succeeded.
  struct Taken {
    Record record;
    std::optional<Live> live;
  };

  static Namespace namespace_of(Space space);

  void add_one(const Record& record);
  std::int16_t device_of(const Record& record) const;
  void alloc(Record record);
  void free(const Record& record);
  void give_back(const Record& cancelled);
  void alloc_failed(Record record);
  void handle_created(const Record& record);
  void mapped(const Record& record);
  void unmapped(const Record& record);
  void end_all(const Record& because);
  void graph_memory(const Record& record);
  void imported(const Record& record);
  bool closed(const Record& record);
  void memory_info(const Record& record);
  void mark(const Record& record);
  void own(const Record& record);
  void held(const Record& record);
  void end_snapshot(const Record& record);
  void pool_found(const Record& record);
  void torch(const Record& record);
  void torch_traced(const Record& record);
  void torch_held(const TorchStart::Segment& segment, std::vector<Event>& events);
  void check_sum(const Record& record);

  void end(const Record& because, std::uint32_t slot);
  std::uint32_t keep(const LiveKey& key, const Live& live);
  void end_piece(const Record& because, cuda::PhysicalMemory::Number number);
  void free_live(const Record& because, const Live& live);
  void segment(EventKind kind, const Record& record, std::string_view heap, const Range& range);
  AllocationId append(const Record& record, Event event);

  std::string_view name_of(std::uint64_t number) const;
  OriginId origin_of(const Record& record);
  HeapId driver_heap(std::int16_t device);
  HeapId heap_of(Space space, std::int16_t device);
  PoolId pool_of(const Record& record);
  ThreadId thread_row(std::uint32_t thread);
  Pool torch_pool(const Record& record);
  StackId preexisting_stack();

  TraceOutput* writer_;
  DumpTriggers* triggers_;
  Recorder* recorder_;
  StackRows stacks_;

  FlatMap<LiveKey, LiveKeyHash> slots_;  // of live_
  std::vector<Live> live_;
  std::vector<std::uint32_t> empty_;
  std::unordered_map<std::uint32_t, Taken> taken_;  // by thread

  cuda::PhysicalMemory physical_;
  std::unordered_map<cuda::PhysicalMemory::Number, Live> pieces_;
  std::map<std::uint64_t, Range> mappings_, graph_nodes_, imports_;   // by address
  std::unordered_map<std::uint64_t, std::int16_t> imported_handles_;  // the device of each handle's memory
  std::unordered_map<std::int16_t, std::uint64_t> chosen_pools_;      // by device
  std::unordered_map<std::uint64_t, StreamPool> pools_;               // that the program created or queried

  bool in_snapshot_ = false;               // between snapshot_begin and snapshot_end
  FlatMap<LiveKey, LiveKeyHash> touched_;  // since snapshot_begin
  std::uint64_t held_before_ = 0;

  OwnPools own_pools_;
  TorchHeaps torch_heaps_;
  TorchStart torch_start_;
  bool torch_known_ = false;                // what all its heaps held when the recording began
  std::unordered_set<std::int16_t> begun_;  // devices whose initial state is written
  ForwardStacks forward_stacks_;
  std::unordered_map<std::int16_t, torch::Checksum> checksums_;  // by device

  Record last_;  // the last argument of origin_of(), and its result
  OriginId last_origin_ = OriginId::none;
  std::unordered_map<std::uint32_t, ThreadId> threads_;
  std::uint64_t events_ = 0, hook_lost_ = 0;
};

}  // namespace memreel::agent
