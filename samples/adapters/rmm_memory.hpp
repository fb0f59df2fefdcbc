// SPDX-License-Identifier: Apache-2.0
// Reports an RMM pool's allocations, and what it gets from its upstream, to memreel.
//
//     rmm::mr::cuda_memory_resource cuda;
//     memreel::annotated_pool pool{"rmm", MEMREEL_POOL_CACHING};
//     memreel_adapters::rmm_segments below{&cuda, pool};
//     rmm::mr::pool_memory_resource<rmm::mr::device_memory_resource> mr{&below, 1u << 30};
//     memreel_adapters::rmm_allocations above{&mr, pool};
//     rmm::mr::set_current_device_resource(&above);
//
// For RMM with rmm::mr::device_memory_resource. Without a recorder, each call costs one extra read of a variable.
#pragma once

#include <cstddef>
#include <exception>

#include <memreel/memreel.h>
#include <rmm/mr/device/device_memory_resource.hpp>

namespace memreel_adapters {

/// Forwards everything to `upstream`, and reports it as allocations of `pool`; both must outlive it.
class rmm_allocations final : public rmm::mr::device_memory_resource {
 public:
  rmm_allocations(rmm::mr::device_memory_resource* upstream, const memreel::annotated_pool& pool)
      : upstream_(upstream), pool_(&pool) {}

 private:
  void* do_allocate(std::size_t bytes, rmm::cuda_stream_view stream) override {
    try {
      void* const address = upstream_->allocate(bytes, stream);
      if (address != nullptr) pool_->alloc(address, bytes, stream.value());
      return address;
    } catch (const std::exception&) {
      pool_->oom(bytes);
      throw;
    }
  }
  void do_deallocate(void* address, std::size_t bytes, rmm::cuda_stream_view stream) noexcept override {
    if (address != nullptr) pool_->free(address);  // before it can be handed out again
    upstream_->deallocate(address, bytes, stream);
  }
  bool do_is_equal(const rmm::mr::device_memory_resource& other) const noexcept override { return this == &other; }

  rmm::mr::device_memory_resource* upstream_;
  const memreel::annotated_pool* pool_;
};

/// The same between a pool and its upstream: reports segments of `pool`.
class rmm_segments final : public rmm::mr::device_memory_resource {
 public:
  rmm_segments(rmm::mr::device_memory_resource* upstream, const memreel::annotated_pool& pool)
      : upstream_(upstream), pool_(&pool) {}

 private:
  void* do_allocate(std::size_t bytes, rmm::cuda_stream_view stream) override {
    void* const address = upstream_->allocate(bytes, stream);
    if (address != nullptr) pool_->segment_add(address, bytes);
    return address;
  }
  void do_deallocate(void* address, std::size_t bytes, rmm::cuda_stream_view stream) noexcept override {
    if (address != nullptr) pool_->segment_remove(address);
    upstream_->deallocate(address, bytes, stream);
  }
  bool do_is_equal(const rmm::mr::device_memory_resource& other) const noexcept override { return this == &other; }

  rmm::mr::device_memory_resource* upstream_;
  const memreel::annotated_pool* pool_;
};

}  // namespace memreel_adapters
