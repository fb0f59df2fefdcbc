// SPDX-License-Identifier: Apache-2.0
// A heap's history resolved for replay: dense ids, read-only columns, no decisions of a policy.
#pragma once

#include <map>

#include "formats/model/tables.h"
#include "formats/model/trace.h"
#include "formats/model/units.h"

namespace memreel {

enum class Op : std::uint8_t {
  alloc,
  free,            // free_requested and free_completed at once, as in nearly all cases
  free_requested,  // the program freed it, the device still uses it
  free_completed,
  alloc_failed,  // a request that failed in the recording
  empty_cache,
  empty_pool,     // only the unused memory of the pool of `pool_stream` is released
  pool_ended,     // the pool of `pool_stream` gets no more requests: it may be released with other unused memory
  pool_restored,  // requests follow that lay out a segment of the pool as before; `slot`: which of restored_segments
  device_synchronized,  // the host waited for the whole device
  stream_synchronized,  // ... for the stream of `pool_stream`
  stream_waits,         // the stream of `pool_stream` waits for that of the pool-stream pair in the column `slot`
};
inline constexpr std::size_t op_count = static_cast<std::size_t>(Op::stream_waits) + 1;

/// What separates free memory that can serve a request from memory that can't: pool and stream.
struct PoolStream {
  PoolId pool = PoolId::default_pool;
  StreamId stream = StreamId::default_stream;
  std::uint64_t stream_handle = 0;
  bool no_split = false;  // set by the program for the pool: free blocks are handed out whole
};

/// Device memory granted in the recorded run.
struct RecordedSegment {
  Address address;
  Bytes size;
};

/// What a heap held when its recording began (formats/model/trace.h). Its first rows stand for the same memory:
/// a policy can start from it and skip them, or place the allocations itself, in order of their addresses.
struct InitialState {
  std::vector<InitialSegment> segments;
  std::vector<std::uint32_t> pool_stream;  // of each segment
  std::vector<Bytes> requested;            // of each block in use, in order; its number is its slot
  Bytes live;                              // requested, and not freed by the program
  std::size_t rows = 0;
  std::uint32_t last_event = 0;  // of these rows
};

/// One heap of a trace. Columns have one row per operation and are shared by all replays.
struct Prepared {
  HeapId heap = HeapId::none;
  std::int32_t device = 0;
  Level level = Level::framework;
  bool pooled = false;  // another heap of the trace sub-allocates this one's memory

  std::vector<Op> op;
  /// The allocation: a small number that is reused once the allocation is completed, so that a policy's table of
  /// allocations is as large as the largest live number, not as the trace.
  std::vector<std::uint32_t> slot;
  std::vector<std::uint32_t> pool_stream;  // of the request, free, pool, or synchronization; 0 for the others
  std::vector<Bytes> size;                 // requested; for frees that of their allocation; 0 for the others
  std::vector<std::uint32_t> event;        // index in the trace
  std::vector<Address> address;            // recorded address of a request; empty unless keeps_addresses

  std::vector<PoolStream> pool_streams;
  std::uint32_t slot_count = 0;
  bool keeps_addresses = false;                 // for a log that states its allocator: its settings have "kind"
  std::vector<RecordedSegment> segments;        // in the order the device granted them: replays reuse these addresses
  std::map<std::string, std::string> settings;  // recorded allocator settings; of several, the last
  std::vector<std::uint32_t> step_ends;         // rows before which a step of the program ended (steps.h), ascending
  std::optional<InitialState> initial;          // of a recording that began late, if known
  std::optional<Bytes> implied_capacity;        // largest capacity consistent with the recorded failures, if any
  std::vector<RecordedSegment> restored_segments;  // what Op::pool_restored lays out: the part that its requests fill

  std::size_t count() const { return op.size(); }
};

}  // namespace memreel
