// SPDX-License-Identifier: Apache-2.0
// Memory functions of the fake libcuda.so.1: linear, page-locked, arrays, external and IPC memory.
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <vector>

#include "tests/fake/call.h"
#include "tests/fake/driver.h"

using namespace fake;

namespace {

constexpr std::uint64_t host_page = 4096;

/// Per thread, without a lock: FAKE_CUDA_ARENAS.
class Arena {
 public:
  static bool enabled() {
    static const bool is = std::getenv("FAKE_CUDA_ARENAS") != nullptr;  // NOLINT(concurrency-mt-unsafe)
    return is;
  }
  static Arena& own() {
    thread_local Arena arena;
    return arena;
  }
  DevicePointer take() {
    if (free_.empty()) return next_ += page;
    const DevicePointer pointer = free_.back();
    free_.pop_back();
    return pointer;
  }
  void give_back(DevicePointer pointer) { free_.push_back(pointer); }

 private:
  static DevicePointer start() {
    static std::atomic<std::uint64_t> threads{0};
    return 0x6000'0000'0000 + (threads++ << 36U);
  }
  DevicePointer next_ = start();
  std::vector<DevicePointer> free_;
};

Status malloc_linear(DevicePointer* pointer, std::uint64_t size) {
  if (current_context() == nullptr) return invalid_context;
  if (pointer == nullptr || size == 0) return invalid_value;
  if (Arena::enabled()) return *pointer = Arena::own().take(), success;
  const std::lock_guard lock(driver().mutex);
  const DevicePointer got = current_gpu()->malloc(size);
  if (got == 0) return out_of_memory;
  *pointer = got;
  driver().context_of[got] = owner(current_context());
  owner(current_context())->linear.insert(got);
  return success;
}

Status free_linear(DevicePointer pointer) {
  if (pointer == 0) return success;
  if (Arena::enabled()) return Arena::own().give_back(pointer), success;
  const std::lock_guard lock(driver().mutex);
  Driver& all = driver();
  if (const auto pool = all.pool_of.find(pointer); pool != all.pool_of.end()) {
    pool->second->free(pointer);
    all.pool_of.erase(pool);
    return success;
  }
  if (all.external.erase(pointer) != 0 || all.graph_live.erase(pointer) != 0) return success;
  if (const auto managed = all.host.find(reinterpret_cast<void*>(pointer)); managed != all.host.end()) {
    munmap(managed->first, managed->second);
    all.host.erase(managed);
    return success;
  }
  const auto owner = all.context_of.find(pointer);
  if (owner == all.context_of.end()) return invalid_value;
  owner->second->linear.erase(pointer);
  all.gpus[static_cast<std::size_t>(owner->second->device)]->free(pointer);
  all.context_of.erase(owner);
  return success;
}

/// Real memory: the program reads and writes it.
Status malloc_host(void** pointer, std::uint64_t size) {
  if (current_context() == nullptr) return invalid_context;
  if (size == 0) return invalid_value;
  const std::uint64_t rounded = round_up(size, host_page);
  void* const got = mmap(nullptr, rounded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (got == MAP_FAILED) return out_of_memory;
  const std::lock_guard lock(driver().mutex);
  driver().host[got] = rounded;
  *pointer = got;
  return success;
}

std::uint64_t size_of_format(int format) {
  switch (format) {
    case 0x02:
    case 0x09:
    case 0x10:
      return 2;
    case 0x03:
    case 0x0a:
    case 0x20:
      return 4;
    default:
      return 1;
  }
}

Status make_array(Array** array, std::uint64_t size) {
  if (current_context() == nullptr) return invalid_context;
  const std::lock_guard lock(driver().mutex);
  const std::uint64_t rounded = round_up(size, page);
  if (!current_gpu()->take(rounded)) return out_of_memory;
  *array = new Array{.context = owner(current_context()), .gpu = current_gpu(), .size = rounded};
  owner(current_context())->arrays.insert(*array);
  return success;
}

Status destroy_array(Array* array) {
  const std::lock_guard lock(driver().mutex);
  if (array == nullptr || array->context->arrays.erase(array) == 0) return invalid_value;
  array->gpu->give_back(array->size);
  delete array;
  return success;
}

std::uint64_t size_of(const Array3DDescriptor& array) {
  return std::max<std::uint64_t>(array.width, 1) * std::max<std::uint64_t>(array.height, 1) *
         std::max<std::uint64_t>(array.depth, 1) * array.channels * size_of_format(array.format);
}

}  // namespace

extern "C" {

Status cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  return call(functions::cuMemGetInfo_v2, arguments::MemAllocPitch{}, [&] {
    if (current_context() == nullptr) return invalid_context;
    const std::lock_guard lock(driver().mutex);
    *free = current_gpu()->free();
    *total = current_gpu()->capacity();
    return success;
  });
}

Status cuMemAlloc_v2(DevicePointer* pointer, std::size_t size) {
  return call(functions::cuMemAlloc_v2, arguments::MemAlloc{pointer, size},
              [&] { return malloc_linear(pointer, size); });
}
Status cuMemAllocPitch_v2(DevicePointer* pointer, std::size_t* pitch, std::size_t width, std::size_t height,
                          unsigned element_size) {
  return call(functions::cuMemAllocPitch_v2, arguments::MemAllocPitch{pointer, pitch, width, height, element_size},
              [&] {
                *pitch = round_up(width, 512);
                return malloc_linear(pointer, *pitch * height);
              });
}
Status cuMemFree_v2(DevicePointer pointer) {
  return call(functions::cuMemFree_v2, arguments::MemFree{pointer}, [&] { return free_linear(pointer); });
}
Status cuMemAllocManaged(DevicePointer* pointer, std::size_t size, unsigned flags) {
  return call(functions::cuMemAllocManaged, arguments::MemAllocManaged{pointer, size, flags}, [&] {
    void* got = nullptr;
    const Status status = malloc_host(&got, size);
    if (status == success) *pointer = reinterpret_cast<DevicePointer>(got);
    return status;
  });
}

Status cuMemAllocHost_v2(void** pointer, std::size_t size) {
  return call(functions::cuMemAllocHost_v2, arguments::MemAllocHost{pointer, size},
              [&] { return malloc_host(pointer, size); });
}
Status cuMemHostAlloc(void** pointer, std::size_t size, unsigned flags) {
  return call(functions::cuMemHostAlloc, arguments::MemHostAlloc{pointer, size, flags},
              [&] { return malloc_host(pointer, size); });
}
Status cuMemFreeHost(void* pointer) {
  return call(functions::cuMemFreeHost, arguments::MemFreeHost{pointer}, [&] {
    const std::lock_guard lock(driver().mutex);
    const auto found = driver().host.find(pointer);
    if (found == driver().host.end()) return invalid_value;
    munmap(pointer, found->second);
    driver().host.erase(found);
    return success;
  });
}
Status cuMemHostRegister_v2(void* pointer, std::size_t size, unsigned flags) {
  return call(functions::cuMemHostRegister_v2, arguments::MemHostRegister{pointer, size, flags}, [&] {
    const std::lock_guard lock(driver().mutex);
    return driver().registered.insert(pointer).second ? success : invalid_value;
  });
}
Status cuMemHostUnregister(void* pointer) {
  return call(functions::cuMemHostUnregister, arguments::MemFreeHost{pointer}, [&] {
    const std::lock_guard lock(driver().mutex);
    return driver().registered.erase(pointer) != 0 ? success : invalid_value;
  });
}

Status cuArrayCreate_v2(Array** array, const ArrayDescriptor* descriptor) {
  return call(functions::cuArrayCreate_v2, arguments::ArrayCreate{array, descriptor}, [&] {
    return make_array(array, size_of({.width = descriptor->width,
                                      .height = descriptor->height,
                                      .format = descriptor->format,
                                      .channels = descriptor->channels}));
  });
}
Status cuArray3DCreate_v2(Array** array, const Array3DDescriptor* descriptor) {
  return call(functions::cuArray3DCreate_v2, arguments::Array3DCreate{array, descriptor},
              [&] { return make_array(array, size_of(*descriptor)); });
}
Status cuArrayDestroy(Array* array) {
  return call(functions::cuArrayDestroy, arguments::ArrayDestroy{array}, [&] { return destroy_array(array); });
}
Status cuMipmappedArrayCreate(MipmappedArray** array, const Array3DDescriptor* descriptor, unsigned levels) {
  return call(functions::cuMipmappedArrayCreate, arguments::MipmappedArrayCreate{array, descriptor, levels},
              [&] { return make_array(reinterpret_cast<Array**>(array), 2 * size_of(*descriptor)); });
}
Status cuMipmappedArrayDestroy(MipmappedArray* array) {
  return call(functions::cuMipmappedArrayDestroy, arguments::MipmappedArrayDestroy{array},
              [&] { return destroy_array(reinterpret_cast<Array*>(array)); });
}

Status cuIpcGetMemHandle(IpcHandle* handle, DevicePointer pointer) {
  return call(functions::cuIpcGetMemHandle, arguments::IpcGetMemHandle{handle, pointer}, [&] {
    const std::lock_guard lock(driver().mutex);
    const auto& gpus = driver().gpus;
    *handle = {};
    for (const auto& gpu : gpus) {
      const std::array words{pointer, gpu->size_of(pointer)};
      if (words[1] != 0) std::memcpy(handle->bytes.data(), words.data(), sizeof words);
    }
    return success;
  });
}
/// Opens the same handle at the same address each time.
Status cuIpcOpenMemHandle_v2(DevicePointer* pointer, IpcHandle handle, unsigned flags) {
  return call(functions::cuIpcOpenMemHandle_v2, arguments::IpcOpenMemHandle{pointer, handle, flags}, [&] {
    std::array<std::uint64_t, 2> words{};
    std::memcpy(words.data(), handle.bytes.data(), sizeof words);
    constexpr std::uint64_t opened_at = 1ULL << 46U;
    const std::lock_guard lock(driver().mutex);
    *pointer = words[0] ^ opened_at;
    Opened& opened = driver().opened[*pointer];
    // Belongs to the device whose context opens it, wherever the memory is.
    opened = {.size = words[1], .device = current_context()->device, .times = opened.times + 1};
    return success;
  });
}
Status cuIpcCloseMemHandle(DevicePointer pointer) {
  return call(functions::cuIpcCloseMemHandle, arguments::IpcCloseMemHandle{pointer}, [&] {
    const std::lock_guard lock(driver().mutex);
    const auto found = driver().opened.find(pointer);
    if (found == driver().opened.end()) return invalid_value;
    if (--found->second.times == 0) driver().opened.erase(found);
    return success;
  });
}
/// Of opened memory; no other address is asked for.
Status cuMemGetAddressRange_v2(DevicePointer* base, std::size_t* size, DevicePointer pointer) {
  const std::lock_guard lock(driver().mutex);
  const auto found = driver().opened.find(pointer);
  if (found == driver().opened.end()) return invalid_value;
  *base = pointer;
  *size = found->second.size;
  return success;
}
/// The type of page-locked host memory, and the device of opened memory.
Status cuPointerGetAttribute(void* value, int attribute, DevicePointer pointer) {
  constexpr int memory_type = 2, device_ordinal = 9, host_memory = 1;
  const std::lock_guard lock(driver().mutex);
  if (attribute == memory_type) {
    const auto after = driver().host.upper_bound(reinterpret_cast<void*>(pointer));
    if (after == driver().host.begin()) return invalid_value;
    const auto& [begin, size] = *std::prev(after);
    if (pointer - reinterpret_cast<DevicePointer>(begin) >= size) return invalid_value;
    std::memcpy(value, &host_memory, sizeof host_memory);
    return success;
  }
  const auto found = driver().opened.find(pointer);
  if (attribute != device_ordinal || found == driver().opened.end()) return invalid_value;
  std::memcpy(value, &found->second.device, sizeof found->second.device);
  return success;
}
Status cuMemcpyPeer(DevicePointer, Context* to, DevicePointer, Context* from, std::size_t) {
  return to != nullptr && from != nullptr ? success : invalid_context;
}

Status cuImportExternalMemory(ExternalMemory** memory, const ExternalMemoryHandle* descriptor) {
  return call(functions::cuImportExternalMemory, arguments::ImportExternalMemory{memory, descriptor}, [&] {
    *memory = new ExternalMemory{.size = descriptor->size};
    return success;
  });
}
Status cuExternalMemoryGetMappedBuffer(DevicePointer* pointer, ExternalMemory* memory,
                                       const ExternalMemoryBuffer* descriptor) {
  return call(functions::cuExternalMemoryGetMappedBuffer,
              arguments::ExternalMemoryGetMappedBuffer{pointer, memory, descriptor}, [&] {
                const std::lock_guard lock(driver().mutex);
                *pointer = current_gpu()->reserve(descriptor->size);
                driver().external[*pointer] = descriptor->size;
                return success;
              });
}
Status cuDestroyExternalMemory(ExternalMemory* memory) {
  return call(functions::cuDestroyExternalMemory, arguments::DestroyExternalMemory{memory}, [&] {
    delete memory;
    return success;
  });
}
}
