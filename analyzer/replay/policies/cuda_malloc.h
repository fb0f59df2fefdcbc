// SPDX-License-Identifier: Apache-2.0
// cuda.malloc: every request is a cudaMalloc, every free a cudaFree.
//
// Source: measured on an NVIDIA H200 with driver 580 (CUDA 13.0) by tests/gpu/probe_allocators; docs/measurements.md
// has the runs, in which these rules reproduced every placement in a page and every byte taken from the device.
//
// - Sizes are rounded up to 512 B. Up to 2 MiB they share pages of 2 MiB; larger ones get whole pages of their own.
// - Shared pages use best fit; ties go to the block that has been free longest. Free neighbours in a page merge; an
//   unused page is returned to the device at once.
// - cudaFree waits for the device, so memory is reusable as soon as the program frees it.
#pragma once

#include <bit>

#include "analyzer/replay/engine/device.h"
#include "analyzer/replay/engine/policy_interface.h"
#include "analyzer/replay/heap/best_fit_index.h"
#include "analyzer/replay/heap/block_table.h"
#include "analyzer/replay/policies/block_policy.h"

namespace memreel {

class CudaMalloc : public BlockPolicy {
 public:
  struct Settings {};
  static constexpr bool serves_any_pool_stream = true;
  static constexpr bool any_addresses_do = true;
  static constexpr Bytes spacing = 512_B;
  static constexpr Bytes page = 2_MiB;
  static constexpr Bytes max_shared = 2_MiB;

  CudaMalloc(const Prepared& heap, Settings, SimulatedDevice& device) : BlockPolicy(heap), device_(device) {}

  bool allocate(std::uint32_t slot, Bytes size, std::uint32_t pool_stream);
  void free_requested(std::uint32_t slot, Bytes size);
  void free(std::uint32_t slot, Bytes size) { free_requested(slot, size); }
  void free_completed(std::uint32_t, Bytes) {}
  void empty_cache() {}
  void resize_slots(std::uint32_t slots) { block_of_.resize(slots, BlockId::none); }

  Bytes largest_free() const { return shared_.largest(); }

 private:
  enum : std::uint32_t { shared_arena, own_pages_arena };

  BlockId take_shared(Bytes size);
  BlockId reserve(Bytes size, std::uint32_t arena);
  void put_free(BlockId id);
  void take_out(BlockId id);

  SimulatedDevice& device_;
  BlockAges ages_;
  OldestFitIndex shared_{table_, std::countr_zero(spacing.count), OldestFirst(ages_)};  // free blocks in shared pages
};

PolicyEntry cuda_malloc_entry();

}  // namespace memreel
