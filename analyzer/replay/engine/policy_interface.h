// SPDX-License-Identifier: Apache-2.0
// The interface between policies and the replay, and a policy's entry in the registry.
#pragma once

#include <concepts>
#include <functional>

#include "analyzer/replay/engine/parameters.h"
#include "analyzer/replay/engine/prepared.h"
#include "analyzer/replay/engine/replay_result.h"
#include "analyzer/replay/heap/block_table.h"
#include "formats/model/result.h"
#include "formats/model/units.h"

namespace memreel {

/// How a policy's memory is used. allocated + free <= reserved; the difference is pending: freed by the program, still
/// in use by the device.
struct HeapUse {
  Bytes allocated;  // handed out, after rounding; falls when the program frees it
  Bytes reserved;   // held from the device
  Bytes free;       // could be handed out
};

/// The extent of an allocation, including everything taken for it. Addresses are the policy's own: only their order,
/// distance and equality matter.
struct Extent {
  Address address;
  Bytes size;

  friend bool operator==(const Extent&, const Extent&) = default;
};

/// Memory that a policy could hand out, and to whom.
struct FreeBlock {
  Bytes size;
  PoolId pool = PoolId::default_pool;  // only this pool may have it
  std::optional<StreamId> stream;      // only this stream may have it at once; none: any
};

/// An allocator's decision rules. It gets one call per operation of the program and reacts with what it reserves.
/// Allocations are identified by their slots (Prepared::slot). Only slots served by allocate() are freed.
///
/// `size` is the requested size, also for frees.
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

/// A policy that decides on placement, not only on amounts. Every policy except the bounds.
///
/// `extent_of` is called for slots that are allocated or pending. `for_each_free` visits the parts of use().free, in
/// any order; it is called where metrics are sampled, not for every operation.
template <class P>
concept PlacingPolicy = Policy<P> && requires(const P& constant, std::uint32_t slot) {
  { constant.extent_of(slot) } -> std::same_as<Extent>;
  constant.for_each_free([](const FreeBlock&) {});
};

/// A policy that keeps an allocation as one block of a table. What an operation will need is then prefetched.
template <class P>
concept BlockwisePolicy = Policy<P> && requires(const P& constant) {
  { constant.blocks() } -> std::same_as<const BlockTable&>;
  { constant.block_ids() } -> std::same_as<const std::vector<BlockId>&>;  // by slot
};

/// A policy whose pools end. A pool-stream pair stands for its pool.
template <class P>
concept PoolingPolicy = Policy<P> && requires(P& policy, std::uint32_t pool_stream) {
  policy.empty_pool(pool_stream);  // releases what the pool holds unused
  policy.pool_ended(pool_stream);  // the pool gets no more requests
};

// A policy whose free memory serves any request may declare `static constexpr bool serves_any_pool_stream = true`. It
// is then not queried for stranded memory.

// A policy whose decisions don't depend on the addresses it is given may declare `static constexpr bool
// any_addresses_do = true`. It then gets whatever is fastest to find.

/// A policy whose pools can be laid out again as they were at an earlier moment. The requests that follow, `size` bytes
/// of the pool in all, fill from its front the free memory that begins at `begin`.
template <class P>
concept RestoringPolicy = Policy<P> && requires(P& policy, std::uint32_t pool_stream, Address begin, Bytes size) {
  policy.pool_restored(pool_stream, begin, size);
};

/// A policy that can start from the state in which the recording began. `resume` is called before anything else; after
/// true, the policy has the memory that the rows of Prepared::initial stand for, and is not given these rows.
template <class P>
concept ResumingPolicy = Policy<P> && requires(P& policy, const InitialState& initial) {
  { policy.resume(initial) } -> std::same_as<bool>;
};

/// A policy that depends on the stream on which the program frees, if that is not the stream of the allocation. Called
/// before free or free_requested.
template <class P>
concept StreamOrderedPolicy = Policy<P> && requires(P& policy, std::uint32_t slot, std::uint32_t pool_stream) {
  policy.freed_on(slot, pool_stream);
};

/// A policy whose choice depends on something no log records. Before a request it is given the recorded address, and
/// may take it where its rules leave the choice open.
template <class P>
concept GuidedPolicy = Policy<P> && requires(P& policy, Address recorded) {
  policy.guide(recorded);
};

/// A policy that is notified when the host waits or streams are ordered. A pool-stream pair stands for its stream.
template <class P>
concept SynchronizingPolicy = Policy<P> && requires(P& policy, std::uint32_t pool_stream) {
  policy.device_synchronized();
  policy.stream_synchronized(pool_stream);
  policy.stream_waits(pool_stream, pool_stream);  // the first waits for the work submitted so far to the second
};

// A registry entry of a policy. The replay itself is compiled next to each policy (engine.h).

struct PolicyInfo {
  std::string_view name;
  std::string_view description;  // one line
  std::vector<Parameter> parameters;
  bool needs_whole_trace = false;  // decides with knowledge of the whole trace: can't be streamed
  bool sub_allocates = true;       // meaningless on a driver-level heap of a program that already pools
  bool host_memory = false;        // for pinned host memory; all others are for device memory
};

/// A policy with resolved parameters.
struct BoundPolicy {
  PolicySpec spec;  // with every parameter
  Bytes unit;       // reserved bytes are multiples of this
  std::function<ReplayResult(const Prepared&, const RunOptions&)> run;
};

struct PolicyEntry {
  PolicyInfo info;
  /// `spec` has exactly the parameters that `info` lists, with values that their rows admit. Errors: values that do not
  /// go together.
  Result<BoundPolicy> (*bind)(const PolicySpec& spec);
  /// Converts user input into the parameters that `info` lists; null if no conversion is needed.
  Result<PolicySpec> (*normalize)(const PolicySpec& spec) = nullptr;
};

}  // namespace memreel
