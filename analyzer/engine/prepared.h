// A heap's history resolved for replay: dense ids, read-only columns, nothing a policy decided.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "formats/model/event.h"
#include "formats/model/ids.h"
#include "formats/model/tables.h"
#include "formats/model/units.h"

namespace memreel {

enum class Op : std::uint8_t {
  alloc,
  free,            // free_requested and free_completed at once, as nearly all are
  free_requested,  // the program freed it, the device is still busy with it
  free_completed,
  alloc_failed,  // a request that failed when it was recorded
  empty_cache,
  empty_pool,           // unused memory of the pool of `pool_stream` is given back, and no other
  pool_ended,           // the pool of `pool_stream` gets no more: it may be released with what else is unused
  device_synchronized,  // the host waited for the whole device
  stream_synchronized,  // ... for the stream of `pool_stream`
  stream_waits,  // the stream of `pool_stream` was made to wait for that of the pool and stream in the column `slot`
};
inline constexpr std::size_t op_count = static_cast<std::size_t>(Op::stream_waits) + 1;

/// What separates free memory that can serve a request from memory that can't: pool and stream.
struct PoolStream {
  PoolId pool = PoolId::default_pool;
  StreamId stream = StreamId::default_stream;
  std::uint64_t stream_handle = 0;
  bool no_split = false;  // the program made the pool so: free blocks are handed out whole
};

/// Device memory that the recorded run was given.
struct RecordedSegment {
  Address address;
  Bytes size;
};

/// One heap of a trace. Columns have one row per operation and are shared by all replays.
struct Prepared {
  HeapId heap = HeapId::none;
  std::int32_t device = 0;
  Level level = Level::framework;
  bool pooled = false;  // some other heap of the trace sub-allocates what this one gives out

  std::vector<Op> op;
  /// Which allocation: a small number that is given again once the allocation is completed, so that a policy's table of
  /// allocations is as large as the largest number alive, not as the trace.
  std::vector<std::uint32_t> slot;
  std::vector<std::uint32_t> pool_stream;  // of the request, the free, the pool, or synchronized; 0 in the others
  std::vector<Bytes> size;                 // requested; in frees that of their allocation; 0 in the others
  std::vector<std::uint32_t> event;        // index in the trace
  std::vector<Address> address;            // what a request got when it was recorded; empty unless keeps_addresses

  std::vector<PoolStream> pool_streams;
  std::uint32_t slot_count = 0;
  bool keeps_addresses = false;                 // of a log that says which allocator it is of: its settings have "kind"
  std::vector<RecordedSegment> segments;        // in the order the device gave them: replays reuse these addresses
  std::map<std::string, std::string> settings;  // allocator settings that were recorded; of several, the last
  std::vector<std::uint32_t> step_ends;         // rows before which a step of the program ended (steps.h), ascending
  std::optional<Bytes> implied_capacity;  // largest capacity consistent with the recorded failures, when there were any

  std::size_t count() const { return op.size(); }
};

}  // namespace memreel
