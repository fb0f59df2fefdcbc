// SPDX-License-Identifier: Apache-2.0
// Infers which memory an allocator held: profiles don't record when it got regions from the device.
//
// They do record the addresses of allocations, the sizes of their chunks and, after each event, the share of the free
// memory outside the largest free chunk. An address outside all regions starts a new one. The allocator's growth rule
// (analyzer/replay/policies/bfc.h) suggests its size, and the metrics of all later events confirm or refute it: they
// depend on all the memory there is. Regions are reported only if every metric fits.
#pragma once

#include <span>

#include "formats/import/source/bytes.h"
#include "formats/import/xplane/plane.h"
#include "formats/model/result.h"
#include "formats/model/trace.h"
#include "formats/writer/trace_output.h"

namespace memreel::xplane {

// The format "jax.memory": jax.profiler.save_device_memory_profile("memory.prof").
//
// Source: xla/pjrt (HeapProfile) and pprof's profile.proto. One instant: for each device and place in the program, how
// many buffers are live and their bytes in all; compiled programs ("executable") apart from them, as a heap of its own.
// Buffers of a place are written with equal sizes that add up to its bytes. There are no addresses: they are made up.
// Devices: the number in "gpu:0", "cuda:0", "TPU_0"; the host's memory for those with "CPU".

/// A profile of pprof with two kinds of samples, as JAX's has.
bool looks_like_device_memory(std::span<const std::byte> beginning);

/// Memory: the decompressed profile.
Result<void> import_device_memory(ByteCursor& bytes, Header header, const BeginOutput& begin);

struct Region {
  std::size_t event = 0;  // that needed the region
  Address address;
  Bytes size;
};

struct Regions {
  bool growing = false;  // else one region of the whole limit existed from the start
  Bytes page;            // region sizes are rounded up to it
  std::vector<Region> regions;
};

/// For the events of one allocator, in order. None if no interpretation fits, e.g. because memory was held before the
/// first event. A history that fits several is interpreted as a growing pool without pages.
std::optional<Regions> infer_regions(std::span<const MemoryEvent* const> events);

}  // namespace memreel::xplane
