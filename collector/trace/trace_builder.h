// SPDX-License-Identifier: Apache-2.0
// Turns records into events of a trace: which heap an event belongs to, which allocation a free ends, what is freed
// with a context. docs/collector.md describes the heaps.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "collector/cuda/physical_memory.h"
#include "collector/recorder/record.h"
#include "collector/recorder/recorder.h"
#include "collector/torch/diverted_calls.h"
#include "collector/trace/flight_dumps.h"
#include "collector/trace/own_pools.h"
#include "collector/trace/stack_rows.h"
#include "collector/trace/torch_start.h"
#include "formats/model/flat_map.h"
#include "formats/writer/trace_output.h"

namespace memreel::agent {

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
