// SPDX-License-Identifier: Apache-2.0
// The virtual memory functions of the fake libcuda.so.1: address ranges, physical memory, and mappings between them.
#include <mutex>

#include "tests/fake/call.h"
#include "tests/fake/driver.h"

using namespace fake;

namespace {

/// Physical memory is freed when neither a handle nor a mapping is left.
void drop_if_unused(AllocationHandle handle) {
  const auto found = driver().physical.find(handle);
  if (found->second.handles > 0 || found->second.mappings > 0) return;
  found->second.gpu->give_back(found->second.size);
  driver().physical.erase(found);
}

}  // namespace

extern "C" {

Status cuMemGetAllocationGranularity(std::size_t* size, const AllocationProperties*, int) {
  return *size = page, success;
}

Status cuMemAddressReserve(DevicePointer* pointer, std::size_t size, std::size_t alignment, DevicePointer wanted,
                           unsigned long long flags) {
  return call(functions::cuMemAddressReserve, arguments::MemAddressReserve{pointer, size, alignment, wanted, flags},
              [&] {
                if (size == 0 || size % page != 0) return invalid_value;
                const std::lock_guard lock(driver().mutex);
                *pointer = driver().gpus.front()->reserve(size);
                driver().reservations[*pointer] = size;
                return success;
              });
}
Status cuMemAddressFree(DevicePointer pointer, std::size_t size) {
  return call(functions::cuMemAddressFree, arguments::MemAddressFree{pointer, size}, [&] {
    const std::lock_guard lock(driver().mutex);
    const auto found = driver().reservations.find(pointer);
    if (found == driver().reservations.end() || found->second != size) return invalid_value;
    driver().reservations.erase(found);
    driver().gpus.front()->unreserve(pointer, size);
    return success;
  });
}
Status cuMemCreate(AllocationHandle* handle, std::size_t size, const AllocationProperties* properties,
                   unsigned long long flags) {
  return call(functions::cuMemCreate, arguments::MemCreate{handle, size, properties, flags}, [&] {
    if (size == 0 || size % page != 0) return invalid_value;
    const std::lock_guard lock(driver().mutex);
    Gpu& gpu = *memory_at(properties->location);
    if (!gpu.take(size)) return out_of_memory;
    *handle = driver().next_handle++;
    driver().physical[*handle] = {.gpu = &gpu, .size = size, .properties = *properties};
    return success;
  });
}
/// The properties it was created with.
Status cuMemGetAllocationPropertiesFromHandle(AllocationProperties* properties, AllocationHandle handle) {
  const std::lock_guard lock(driver().mutex);
  const auto found = driver().physical.find(handle);
  if (found == driver().physical.end()) return invalid_value;
  *properties = found->second.properties;
  return success;
}
Status cuMemRelease(AllocationHandle handle) {
  return call(functions::cuMemRelease, arguments::MemRelease{handle}, [&] {
    const std::lock_guard lock(driver().mutex);
    const auto found = driver().physical.find(handle);
    if (found == driver().physical.end() || found->second.handles == 0) return invalid_value;
    --found->second.handles;
    drop_if_unused(handle);
    return success;
  });
}
Status cuMemRetainAllocationHandle(AllocationHandle* handle, void* address) {
  return call(functions::cuMemRetainAllocationHandle, arguments::MemRetainAllocationHandle{handle, address}, [&] {
    const std::lock_guard lock(driver().mutex);
    const auto pointer = reinterpret_cast<DevicePointer>(address);
    auto found = driver().mappings.upper_bound(pointer);
    if (found == driver().mappings.begin()) return invalid_value;
    --found;
    if (pointer >= found->first + found->second.size) return invalid_value;
    *handle = found->second.handle;
    ++driver().physical[*handle].handles;
    return success;
  });
}
Status cuMemMap(DevicePointer pointer, std::size_t size, std::size_t offset, AllocationHandle handle,
                unsigned long long flags) {
  return call(functions::cuMemMap, arguments::MemMap{pointer, size, offset, handle, flags}, [&] {
    const std::lock_guard lock(driver().mutex);
    const auto found = driver().physical.find(handle);
    if (found == driver().physical.end() || found->second.handles == 0 || offset + size > found->second.size ||
        size % page != 0 || pointer % page != 0 || driver().mappings.contains(pointer))
      return invalid_value;
    ++found->second.mappings;
    driver().mappings[pointer] = {.size = size, .handle = handle};
    return success;
  });
}
Status cuMemUnmap(DevicePointer pointer, std::size_t size) {
  return call(functions::cuMemUnmap, arguments::MemUnmap{pointer, size}, [&] {
    const std::lock_guard lock(driver().mutex);
    auto& mappings = driver().mappings;
    // Only whole mappings, and the entire range must be mapped.
    DevicePointer reached = pointer;
    for (auto it = mappings.find(pointer); it != mappings.end() && it->first == reached && reached < pointer + size;
         ++it)
      reached += it->second.size;
    if (size == 0 || reached != pointer + size) return invalid_value;
    while (pointer < reached) {
      const auto it = mappings.find(pointer);
      const AllocationHandle handle = it->second.handle;
      pointer += it->second.size;
      mappings.erase(it);
      --driver().physical[handle].mappings;
      drop_if_unused(handle);
    }
    return success;
  });
}
Status cuMemSetAccess(DevicePointer pointer, std::size_t size, const Access* access, std::size_t count) {
  return call(functions::cuMemSetAccess, arguments::MemSetAccess{pointer, size, access, count}, [&] {
    const std::lock_guard lock(driver().mutex);
    auto found = driver().mappings.upper_bound(pointer);
    return found == driver().mappings.begin() ? invalid_value : success;
  });
}
}
