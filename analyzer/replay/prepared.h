// A heap's history resolved for replay: dense ids, read-only columns, nothing a policy decided.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "formats/model/trace.h"

namespace memreel {

enum class Op : std::uint8_t {
  alloc,
  free_requested,
  free_completed,
  alloc_failed,  // a request that failed when it was recorded
  empty_cache,
};

/// What separates free memory that can serve a request from memory that can't: pool and stream.
struct Lane {
  PoolId pool = PoolId::default_pool;
  StreamId stream = StreamId::default_stream;
  std::uint64_t stream_handle = 0;
};

/// Device memory that the recorded run was given or refused, for policies that repeat its decisions.
struct RecordedSegment {
  Address address;
  Bytes size;
};

/// One heap of a trace. Columns have one row per operation and are shared by all replays.
struct Prepared {
  HeapId heap = HeapId::none;
  std::int32_t device = 0;
  Level level = Level::framework;

  std::vector<Op> op;
  std::vector<std::uint32_t> allocation;  // dense in this heap, from 0 in order of their allocs
  std::vector<std::uint32_t> lane;
  std::vector<Bytes> size;           // requested; also in frees
  std::vector<std::uint32_t> event;  // index in the trace

  std::vector<Lane> lanes;
  std::uint32_t allocation_count = 0;
  std::vector<RecordedSegment> segments;  // in the order the device gave them: synthetic replays reuse these addresses
  std::map<std::string, std::string> settings;  // allocator_settings that were recorded
  std::optional<Bytes> implied_capacity;  // largest capacity consistent with the recorded failures, when there were any

  std::size_t count() const { return op.size(); }
};

/// One entry for each heap that has allocations. The trace must outlive nothing: all is copied.
std::vector<Prepared> prepare(const Trace& trace);

}  // namespace memreel
