// SPDX-License-Identifier: Apache-2.0
// A GPU driver with simulated memory, for tests on machines without a GPU. It is strict: what the real driver would
// refuse or crash on is an error here.
//
// Read when the driver is initialized, which also resets all state:
//   FAKE_CUDA_MEMORY  bytes of the GPU's memory [64 GiB]
//   FAKE_CUDA_GPUS    number of GPUs [1]
//   FAKE_CUDA_BROKEN  the name of a function that fails with error 719 (launch failure)
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

#include "analyzer/replay/device/gpu.h"

namespace memreel::gpu {
namespace {

constexpr Status invalid_value = 1, invalid_device = 101, broken = 719;
constexpr std::uint64_t page = 2U << 20U, chunk = 32U << 20U;

struct FakePool {
  std::uint64_t max = 0, threshold = 0, reserved = 0, reserved_high = 0, used = 0, used_high = 0;
};
struct Piece {
  std::uint64_t size = 0;
  FakePool* pool = nullptr;
};

struct State {
  std::uint64_t total = 0, taken = 0, next_address = 1ULL << 32U, next_handle = 1;
  int gpus = 1, contexts = 0, streams = 0, events = 0;
  std::string broken;
  std::map<DevicePointer, std::uint64_t> mallocs, reservations;
  std::map<DevicePointer, Piece> pieces;
  std::map<AllocationHandle, std::uint64_t> handles;  // their sizes
  std::map<DevicePointer, std::uint64_t> mappings;    // their sizes
  std::map<FakePool*, int> pools;
};
State state;  // NOLINT: a driver has one

std::uint64_t round_to(std::uint64_t size, std::uint64_t unit) { return (size + unit - 1) / unit * unit; }

std::uint64_t number_in(const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe)
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

bool take(std::uint64_t size) {
  if (size > state.total - state.taken) return false;
  state.taken += size;
  return true;
}

bool is_broken(const char* name) { return state.broken == name; }

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): the driver's names
extern "C" {

Status cuInit(unsigned) {
  state = {};
  state.total = number_in("FAKE_CUDA_MEMORY", 64ULL << 30U);
  state.gpus = static_cast<int>(number_in("FAKE_CUDA_GPUS", 1));
  const char* name = std::getenv("FAKE_CUDA_BROKEN");  // NOLINT(concurrency-mt-unsafe)
  state.broken = name != nullptr ? name : "";
  return is_broken("cuInit") ? broken : success;
}
Status cuDriverGetVersion(int* version) { return *version = 12040, success; }
Status cuGetErrorName(Status status, const char** name) {
  *name = status == broken          ? "CUDA_ERROR_LAUNCH_FAILED"
          : status == out_of_memory ? "CUDA_ERROR_OUT_OF_MEMORY"
                                    : nullptr;
  return *name != nullptr ? success : invalid_value;
}
Status cuDeviceGetCount(int* count) { return *count = state.gpus, success; }
Status cuDeviceGet(DeviceNumber* device, int number) {
  return number < state.gpus ? (*device = number, success) : invalid_device;
}
Status cuDeviceGetName(char* name, int size, DeviceNumber) {
  std::strncpy(name, "Fake GPU", static_cast<std::size_t>(size));
  return success;
}
Status cuDevicePrimaryCtxRetain(Context* context, DeviceNumber) {
  if (is_broken("cuDevicePrimaryCtxRetain")) return broken;
  ++state.contexts;
  *context = reinterpret_cast<Context>(&state);
  return success;
}
Status cuDevicePrimaryCtxRelease_v2(DeviceNumber) { return --state.contexts >= 0 ? success : invalid_value; }
Status cuCtxSetCurrent(Context) { return success; }
Status cuCtxSynchronize() { return is_broken("cuCtxSynchronize") ? broken : success; }
Status cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  *free = state.total - state.taken;
  *total = state.total;
  return success;
}

Status cuMemAlloc_v2(DevicePointer* pointer, std::size_t size) {
  if (is_broken("cuMemAlloc_v2")) return broken;
  if (size == 0) return invalid_value;
  const std::uint64_t rounded = round_to(size, page);
  if (!take(rounded)) return out_of_memory;
  *pointer = state.next_address;
  state.next_address += rounded;
  state.mallocs[*pointer] = rounded;
  return success;
}
Status cuMemFree_v2(DevicePointer pointer) {
  const auto found = state.mallocs.find(pointer);
  if (found == state.mallocs.end()) return invalid_value;
  state.taken -= found->second;
  state.mallocs.erase(found);
  return success;
}

Status cuStreamCreate(Stream* stream, unsigned) {
  ++state.streams;
  *stream = reinterpret_cast<Stream>(new char);
  return success;
}
Status cuStreamDestroy_v2(Stream stream) {
  --state.streams;
  delete reinterpret_cast<char*>(stream);
  return success;
}
Status cuStreamSynchronize(Stream) { return success; }
Status cuStreamWaitEvent(Stream, Event event, unsigned) { return event != nullptr ? success : invalid_value; }
Status cuLaunchHostFunc(Stream, void (*function)(void*), void* data) { return function(data), success; }
Status cuEventCreate(Event* event, unsigned) {
  ++state.events;
  *event = reinterpret_cast<Event>(new char);
  return success;
}
Status cuEventRecord(Event, Stream) { return success; }
Status cuEventDestroy_v2(Event event) {
  --state.events;
  delete reinterpret_cast<char*>(event);
  return success;
}

Status cuMemPoolCreate(Pool* pool, const PoolProperties* properties) {
  if (is_broken("cuMemPoolCreate")) return broken;
  auto* const made = new FakePool{.max = round_to(properties->max_size, chunk)};
  state.pools[made] = 1;
  *pool = reinterpret_cast<Pool>(made);
  return success;
}
Status cuMemPoolDestroy(Pool pool) {
  auto* const gone = reinterpret_cast<FakePool*>(pool);
  if (state.pools.erase(gone) == 0 || gone->used > 0) return invalid_value;
  state.taken -= gone->reserved;
  delete gone;
  return success;
}
Status cuMemPoolSetAttribute(Pool pool, PoolAttribute attribute, void* value) {
  if (pool == nullptr) return invalid_value;
  if (attribute == PoolAttribute::release_threshold)
    std::memcpy(&reinterpret_cast<FakePool*>(pool)->threshold, value, sizeof(std::uint64_t));
  return success;
}
Status cuMemPoolGetAttribute(Pool pool, PoolAttribute attribute, void* value) {
  const auto* const p = reinterpret_cast<FakePool*>(pool);
  const std::uint64_t number = attribute == PoolAttribute::reserved_current ? p->reserved
                               : attribute == PoolAttribute::reserved_high  ? p->reserved_high
                               : attribute == PoolAttribute::used_current   ? p->used
                                                                            : p->used_high;
  std::memcpy(value, &number, sizeof(number));
  return success;
}
Status cuMemPoolTrimTo(Pool pool, std::size_t keep) {
  auto* const p = reinterpret_cast<FakePool*>(pool);
  const std::uint64_t least = std::max<std::uint64_t>(round_to(p->used, chunk), round_to(keep, chunk));
  if (p->reserved > least) {
    state.taken -= p->reserved - least;
    p->reserved = least;
  }
  return success;
}
Status cuMemAllocFromPoolAsync(DevicePointer* pointer, std::size_t size, Pool pool, Stream) {
  if (is_broken("cuMemAllocFromPoolAsync")) return broken;
  auto* const p = reinterpret_cast<FakePool*>(pool);
  const std::uint64_t needed = std::max(p->reserved, round_to(p->used + size, chunk));
  if ((p->max > 0 && needed > p->max) || !take(needed - p->reserved)) return out_of_memory;
  p->reserved = needed;
  p->reserved_high = std::max(p->reserved_high, needed);
  p->used += size;
  p->used_high = std::max(p->used_high, p->used);
  *pointer = state.next_address;
  state.next_address += round_to(size, 512);
  state.pieces[*pointer] = {.size = size, .pool = p};
  return success;
}
Status cuMemFreeAsync(DevicePointer pointer, Stream) {
  const auto found = state.pieces.find(pointer);
  if (found == state.pieces.end()) return invalid_value;
  found->second.pool->used -= found->second.size;
  state.pieces.erase(found);
  return success;
}

Status cuMemAddressReserve(DevicePointer* address, std::size_t size, std::size_t, DevicePointer, unsigned long long) {
  if (size == 0 || size % page != 0) return invalid_value;
  *address = state.next_address = round_to(state.next_address, page);
  state.next_address += size;
  state.reservations[*address] = size;
  return success;
}
Status cuMemAddressFree(DevicePointer address, std::size_t size) {
  const auto found = state.reservations.find(address);
  if (found == state.reservations.end() || found->second != size) return invalid_value;
  const auto mapped = state.mappings.lower_bound(address);
  if (mapped != state.mappings.end() && mapped->first < address + size) return invalid_value;
  state.reservations.erase(found);
  return success;
}
Status cuMemCreate(AllocationHandle* handle, std::size_t size, const AllocationProperties*, unsigned long long) {
  if (is_broken("cuMemCreate")) return broken;
  if (size == 0 || size % page != 0) return invalid_value;
  if (!take(size)) return out_of_memory;
  *handle = state.next_handle++;
  state.handles[*handle] = size;
  return success;
}
Status cuMemRelease(AllocationHandle handle) { return state.handles.erase(handle) == 1 ? success : invalid_value; }
Status cuMemMap(DevicePointer address, std::size_t size, std::size_t, AllocationHandle handle, unsigned long long) {
  const auto range = state.reservations.upper_bound(address);
  if (range == state.reservations.begin()) return invalid_value;
  const auto& [begin, bytes] = *std::prev(range);
  if (address + size > begin + bytes || state.handles[handle] != size) return invalid_value;
  const auto after = state.mappings.lower_bound(address);
  if (after != state.mappings.end() && after->first < address + size) return invalid_value;
  if (after != state.mappings.begin() && std::prev(after)->first + std::prev(after)->second > address)
    return invalid_value;
  state.mappings[address] = size;
  return success;
}
Status cuMemUnmap(DevicePointer address, std::size_t size) {
  const auto found = state.mappings.find(address);
  if (found == state.mappings.end() || found->second != size) return invalid_value;
  state.taken -= size;
  state.mappings.erase(found);
  return success;
}
Status cuMemSetAccess(DevicePointer address, std::size_t, const Access*, std::size_t) {
  if (is_broken("cuMemSetAccess")) return broken;
  return state.mappings.contains(address) ? success : invalid_value;
}

/// What was allocated and not freed: objects of any kind, and bytes.
int fake_cuda_leaks() {
  return state.contexts + state.streams + state.events + static_cast<int>(state.pools.size() + state.pieces.size()) +
         static_cast<int>(state.mallocs.size() + state.mappings.size() + state.reservations.size()) +
         static_cast<int>(state.handles.size()) + (state.taken > 0 ? 1 : 0);
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)

}  // namespace memreel::gpu
