// What a hook saw, as it travels from the program's thread to the writing thread: a fact about one call. What facts
// mean for the trace (which memory lives how long, in which heap) is decided behind the rings.
#pragma once

#include <cstdint>
#include <type_traits>

#include "collector/stacks/stack_tree.h"

namespace memreel::agent {

enum class RecordKind : std::uint8_t {
  none = 0,
  thread_began,  // records that follow in this ring are of thread `object` (the ring's own business)

  alloc,           // `size` bytes at `address`; pool `object` (0: the device's current one), in order of `stream`
  free,            // of `address`; recorded before the memory can be given to another thread
  free_cancelled,  // the free with sequence number `object` failed: the memory is still there
  alloc_failed,    // `size` bytes were refused with `status`

  // Memory that is created, and addresses that it is mapped at.
  addresses_reserved,  // `size` bytes from `address`
  addresses_released,
  handle_created,   // `object` is `size` bytes on `device`
  handle_imported,  // `object` is another process's memory on `device`, size unknown
  handle_retained,  // `object` has one reference more: it was asked for what is mapped at `address`
  handle_released,  // ... one less
  mapped,           // `size` bytes of `object`, from byte `stream` of it, at `address`
  unmapped,         // `size` bytes from `address`

  pool_created,       // `object` on `device`, or that there is one; of managed memory, where its space says so
  pool_destroyed,     // `object`: gone when nothing of it is in use
  pool_chosen,        // `object`: what requests on `device` that name no pool are served from
  context_created,    // `context` on `device`
  context_destroyed,  // what belonged to `context` is freed with it
  device_reset,       // all contexts of `device` are

  // What there was before the recording began, as somebody knows who counted it. Between `snapshot_begin` and
  // `snapshot_end`, in this order; what happened meanwhile has the last word.
  snapshot_begin,
  snapshot_block,  // `size` bytes at `address`, for `stream`
  snapshot_end,

  graph_alloc,  // a node of a graph: running it gives `size` bytes at `address`
  graph_free,   // a node of a graph: running it frees `address`

  memory_info,  // sample: `size` bytes used, `address` bytes free, of the device; in Space::ordered: of pool `object`
  hook_lost,    // a call could not be observed

  // What the program says itself. Names are numbers of Recorder::names().
  mark,             // `object` is the name of an instant or range, `status` its MarkPhase
  own_pool_made,    // pool `object`, called `address`, on `device`, gets its memory from own pool `stream` (0: the
                    // driver)
  own_pool_gone,    // `object`: and all that is alive in it
  free_requested,   // of `address` in own pool `object`: the program freed it ...
  free_completed,   // ... and the device was done with it
  resized,          // what is at `address` in an own pool has `size` bytes from now on
  segment_added,    // own pool `object`, or PyTorch's, got `size` bytes at `address`
  segment_removed,  // ... and gave them back
};

/// What memory a record is about: an allocator's family, whose addresses are unique among themselves.
enum class Space : std::uint8_t {
  linear = 0,    // cuMemAlloc
  managed,       // cuMemAllocManaged: moves between device and host
  array,         // cuArrayCreate: no address but a handle; the size is an estimate
  ordered,       // cuMemAllocAsync: from a pool, in order of a stream
  physical,      // cuMemCreate: a handle, mapped where the program likes
  graph,         // of a graph's memory nodes
  pinned,        // host memory that was allocated
  registered,    // host memory that was page-locked
  imported,      // another process's, or another API's
  torch,         // PyTorch's tensors, out of the memory above; `object` is what its allocator counts as allocated
  torch_traced,  // ... as its allocator's own trace tells of them: sizes as requested, completion by itself. The lower
                 // half of `object` is the name that is its pool's key, two numbers of 8 bytes (0: the default pool);
                 // of an allocation the upper half is its place in autograd (collector/torch/autograd.h), with
                 // `status` 1 in a backward pass
  own,           // of pool `object` of the program's own: collector/include/memreel/memreel.h; 0: of the one that has
                 // something at `address`
};
inline constexpr std::size_t space_count = 12;

/// Fields that a kind does not have are zero. `sequence` and `time` are given by Recorder::emit(). Who knows the time
/// already hands it over there in ticks of Recorder::clock(); until a record is drained its time is in ticks.
struct Record {
  std::uint64_t sequence = 0;  // order of all records of the process; from 1
  std::int64_t time = 0;       // ns since the Unix epoch
  std::uint64_t address = 0;
  std::uint64_t size = 0;    // bytes
  std::uint64_t stream = 0;  // the cudaStream_t as an integer
  std::uint64_t object = 0;
  stacks::StackKey stack = stacks::StackKey::none;
  std::uint32_t thread = 0;   // kernel's number; filled in when the record is taken from its ring
  std::int16_t device = 0;    // CUDA ordinal, -1: the host
  std::uint16_t context = 0;  // number that the backend gave it; 0: not known
  RecordKind kind = RecordKind::none;
  Space space = Space::linear;
  std::uint16_t status = 0;  // CUresult of a failure
};
static_assert(sizeof(Record) == 64);
static_assert(std::is_trivially_copyable_v<Record>);

}  // namespace memreel::agent
