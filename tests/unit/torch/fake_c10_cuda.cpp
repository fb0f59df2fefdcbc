// Stands in for libc10_cuda.so: calls the reports as PyTorch's allocator does, through the dynamic linker.
// NOLINTBEGIN: PyTorch's names
#include <cstddef>
#include <cstdint>

namespace c10 {

struct Device {
  std::int8_t type, index;
};
void reportMemoryUsageToProfiler(void* address, std::int64_t change, std::size_t allocated, std::size_t reserved,
                                 Device device);
void reportOutOfMemoryToProfiler(std::int64_t size, std::size_t allocated, std::size_t reserved, Device device);

namespace cuda {

class CUDAStream {
 public:
  explicit CUDAStream(Device device, std::int64_t id) : device_(device), id_(id) {}
  void* stream() const;

 private:
  [[maybe_unused]] Device device_;
  std::int64_t id_;
};
void* CUDAStream::stream() const {
  return reinterpret_cast<void*>(0x1000 + id_);  // NOLINT(performance-no-int-to-ptr): what a fake does
}

CUDAStream getCurrentCUDAStream(std::int8_t device) {
  return CUDAStream({1, device}, device == 1 ? 33 : 0);  // device 1 is on a stream of its own
}

}  // namespace cuda
}  // namespace c10

extern "C" void fake_report(void* address, std::int64_t change, std::size_t allocated, int type, int device) {
  c10::reportMemoryUsageToProfiler(address, change, allocated, 0,
                                   {static_cast<std::int8_t>(type), static_cast<std::int8_t>(device)});
}
extern "C" void fake_out_of_memory(std::int64_t size, int device) {
  c10::reportOutOfMemoryToProfiler(size, 0, 0, {1, static_cast<std::int8_t>(device)});
}
// NOLINTEND
