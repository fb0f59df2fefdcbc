// SPDX-License-Identifier: Apache-2.0
// A stand-in for RMM's header: the parts that an adapter needs.
// NOLINTBEGIN: RMM's names
#pragma once

#include <cstddef>

namespace rmm {

class cuda_stream_view {
 public:
  explicit cuda_stream_view(void* stream = nullptr) : stream_(stream) {}
  void* value() const noexcept { return stream_; }

 private:
  void* stream_;
};

namespace mr {

class device_memory_resource {
 public:
  virtual ~device_memory_resource() = default;
  void* allocate(std::size_t bytes, cuda_stream_view stream = cuda_stream_view{}) { return do_allocate(bytes, stream); }
  void deallocate(void* address, std::size_t bytes, cuda_stream_view stream = cuda_stream_view{}) noexcept {
    do_deallocate(address, bytes, stream);
  }
  bool is_equal(const device_memory_resource& other) const noexcept { return do_is_equal(other); }

 private:
  virtual void* do_allocate(std::size_t bytes, cuda_stream_view stream) = 0;
  virtual void do_deallocate(void* address, std::size_t bytes, cuda_stream_view stream) noexcept = 0;
  virtual bool do_is_equal(const device_memory_resource& other) const noexcept { return this == &other; }
};

}  // namespace mr
}  // namespace rmm
// NOLINTEND
