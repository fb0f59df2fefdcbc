// What a policy is to the replay.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <vector>

#include "analyzer/engine/replay_result.h"
#include "analyzer/heap/block_table.h"
#include "formats/model/ids.h"
#include "formats/model/units.h"

namespace memreel {

/// What becomes of the memory in a policy's hands. allocated + free <= reserved; the difference is pending: freed
/// by the program, still in use by the device.
struct HeapUse {
  Bytes allocated;  // handed out, after rounding; falls when the program frees it
  Bytes reserved;   // held from the device
  Bytes free;       // could be handed out
};

/// Where an allocation lies, and all that was taken for it. Addresses are the policy's own: only their order, distance
/// and equality mean something.
struct Extent {
  Address address;
  Bytes size;

  friend bool operator==(const Extent&, const Extent&) = default;
};

/// Memory that a policy could hand out, and to whom.
struct FreeBlock {
  Bytes size;
  PoolId pool = PoolId::default_pool;  // the only one that may have it
  std::optional<StreamId> stream;      // the only one that may have it at once; none: any
};

/// An allocator's decision rules. It is told what the program does, one call per operation, and answers by what it
/// reserves. Allocations are known by their slots (Prepared::slot). Only slots that allocate() served are freed.
///
/// `size` is what was requested, in frees too.
template <class P>
concept Policy = requires(P& policy, const P& constant, std::uint32_t slot, Bytes size, std::uint32_t pool_stream) {
  { policy.allocate(slot, size, pool_stream) } -> std::same_as<bool>;  // false: it failed, and slot is not used
  policy.free(slot, size);
  policy.free_requested(slot, size);
  policy.free_completed(slot, size);
  policy.empty_cache();
  { constant.use() } -> std::same_as<const HeapUse&>;
  { constant.largest_free() } -> std::same_as<Bytes>;
  { constant.driver_calls() } -> std::same_as<const DriverCalls&>;
};

/// One that decides where, not only how much. Every policy but the bounds.
///
/// `extent_of` is of a slot that is allocated or pending. `for_each_free` visits what use().free is the sum of, in any
/// order; it is called where metrics are sampled, not for every operation.
template <class P>
concept PlacingPolicy = Policy<P> && requires(const P& constant, std::uint32_t slot) {
  { constant.extent_of(slot) } -> std::same_as<Extent>;
  constant.for_each_free([](const FreeBlock&) {});
};

/// One that keeps an allocation as one block of a table. Then what an operation will need is fetched ahead of it.
template <class P>
concept BlockwisePolicy = Policy<P> && requires(const P& constant) {
  { constant.blocks() } -> std::same_as<const BlockTable&>;
  { constant.block_ids() } -> std::same_as<const std::vector<BlockId>&>;  // by slot
};

/// One whose pools end. A pair of pool and stream stands for its pool.
template <class P>
concept PoolingPolicy = Policy<P> && requires(P& policy, std::uint32_t pool_stream) {
  policy.empty_pool(pool_stream);  // gives back what the pool holds unused
  policy.pool_ended(pool_stream);  // nothing is asked of the pool any more
};

// A policy whose free memory serves whoever asks may say so: `static constexpr bool serves_any_pool_stream = true`.
// Then it is not asked for memory that is stranded.

// One whose decisions don't depend on the addresses of what it is given may say so: `static constexpr bool
// any_addresses_do = true`. Then it gets what is quickest to find.

/// One to which it matters on which stream the program frees, if it is not that of the allocation. Told before free or
/// free_requested.
template <class P>
concept StreamOrderedPolicy = Policy<P> && requires(P& policy, std::uint32_t slot, std::uint32_t pool_stream) {
  policy.freed_on(slot, pool_stream);
};

/// One whose choice depends on what no log says. It is told, before a request, what address that got when it was
/// recorded, and may take it where its rules leave the choice open.
template <class P>
concept GuidedPolicy = Policy<P> && requires(P& policy, Address recorded) {
  policy.guide(recorded);
};

/// One that is told when the host waits or streams are ordered. A pair of pool and stream stands for its stream.
template <class P>
concept SynchronizingPolicy = Policy<P> && requires(P& policy, std::uint32_t pool_stream) {
  policy.device_synchronized();
  policy.stream_synchronized(pool_stream);
  policy.stream_waits(pool_stream, pool_stream);  // the first for what the second was given so far
};

}  // namespace memreel
