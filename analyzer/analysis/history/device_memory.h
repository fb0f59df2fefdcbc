// SPDX-License-Identifier: Apache-2.0
// What each device of a trace holds, each byte once, over its tree of heaps: the driver's allocations, the pools made
// of them, and pools inside pools. A device's figures are those of an instant, never sums of maxima, nor of recordings
// that follow each other.
#pragma once

#include <map>
#include <span>

#include "formats/model/trace.h"

namespace memreel {

// What the driver said of devices when it was asked (memory_info): besides what calls tell, what nobody's call tells.

/// A device, or what it holds beside the calls that are recorded.
struct DeviceSamples {
  Bytes total;      // the device's own
  Bytes pools;      // held by pools of cudaMallocAsync and not in use
  Bytes graphs;     // held for the memory of graphs, in use or not
  Bytes of_nobody;  // in use, but told by no call: contexts, code, other processes

  friend bool operator==(const DeviceSamples&, const DeviceSamples&) = default;
};

/// All samples of a trace, and what its devices held by then.
class SampledDevices {
 public:
  explicit SampledDevices(const Trace& trace);

  /// From this event on, the device holds so much by its calls. Events come in order.
  void see(std::int32_t device, std::uint32_t event, Bytes held);

  /// Around an event, once all have been seen; none: the device was never sampled. A sample may be older or newer than
  /// the calls beside it: of the last before and the first after, the one with less of nobody's counts.
  std::optional<DeviceSamples> around(std::int32_t device, std::uint32_t event) const;

  /// What a pool of cudaMallocAsync had and did not use, by the last sample until this event; none: there is none.
  std::optional<Bytes> unused(HeapId heap, PoolId pool, std::uint32_t event) const;

 private:
  struct Sample {
    std::uint32_t event = 0;
    Bytes used, free;
    Bytes held;  // by calls
    Bytes pools, graphs;
  };
  struct Device {
    std::vector<Sample> samples;
    std::size_t next = 0;  // of the samples, whose `held` is not yet known
    Bytes held;
  };

  std::map<std::int32_t, Device> devices_;
  std::map<std::pair<HeapId, PoolId>, std::vector<std::pair<std::uint32_t, Bytes>>> unused_;  // by event
};

/// What is held from an event on, until the next of a series.
struct HeldFrom {
  std::uint32_t event = 0;
  Bytes held;

  friend bool operator==(const HeldFrom&, const HeldFrom&) = default;
};

/// What one heap adds to its device at an instant.
struct HeapPart {
  HeapId heap = HeapId::none;
  Bytes held;   // of the driver's heap: its allocations that no pool is made of; of a pool: its segments that are not
                // inside another pool, or its allocations if its segments are not recorded
  Bytes live;   // its allocations, except those that a heap inside is made of
  Bytes whole;  // its memory, whether inside another heap or not, with that of the heaps inside it

  friend bool operator==(const HeapPart&, const HeapPart&) = default;
};

/// A device after an event.
struct DeviceInstant {
  std::uint32_t event = 0;
  Bytes held, live;
  std::vector<HeapPart> parts;  // that are not zero, by heap; they add up to the above
};

struct DeviceHeap {
  HeapId heap = HeapId::none;
  HeapId parent = HeapId::none;  // whose memory its own is; none: the device's
  Bytes peak_held;               // of its part
  Bytes peak_whole;
  bool is_inside = false;  // most of its memory is another pool's
  bool is_mapped = false;  // some of its memory is mapped: made by cuMemCreate
};

/// Memory of the driver's heap that is a heap of its own there: made by cuMemCreate and mapped, given by a pool of
/// cudaMallocAsync, managed...
struct DriverPart {
  HeapId heap = HeapId::none;          // the driver's
  PoolId pool = PoolId::default_pool;  // of it
  bool is_mapped = false;              // made by cuMemCreate: pools may be made of mappings of it
  Bytes peak;                          // the most, without what pools are made of
  Bytes held;                          // the same at the device's peak
  std::optional<Bytes> unused;         // of a pool: what it has besides, by the last sample before that
};

struct DeviceMemory {
  std::int32_t device = 0;       // -1: host memory
  HeapId driver = HeapId::none;  // the driver's heap, which the others are inside; none: it has none here
  bool has_driver = false;  // the driver's calls are recorded. Otherwise only pools are known: a part of the device
  std::vector<DeviceHeap> heaps;  // that have memory, by id: a tree. One of them at most is the driver's
  std::vector<DriverPart> driver_parts;
  std::optional<DeviceSamples> samples;  // around the peak of what it holds; none: the device was not sampled
  DeviceInstant peak_held;               // of several instants, the one with most live
  DeviceInstant peak_live;               // the first
  std::uint64_t failures = 0;            // requests, of any heap
};

/// By device. `trace` is complete: its levels are linked (levels.h).
///
/// A heap is inside those that it names as its parents. Between others, as between a pool and the allocation that is
/// larger than its segment, addresses decide.
std::vector<DeviceMemory> device_memory(const Trace& trace);

/// The heaps of the device, parents before their children, larger ones first, and how deep each is.
std::vector<std::pair<const DeviceHeap*, std::uint32_t>> tree_of(const DeviceMemory& device);

/// By device, what it holds except in `heaps`, from event to event. Empty series: nothing.
std::map<std::int32_t, std::vector<HeldFrom>> held_beside(const Trace& trace, std::span<const HeapId> heaps);

}  // namespace memreel
