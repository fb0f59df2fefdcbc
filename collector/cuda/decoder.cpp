// SPDX-License-Identifier: Apache-2.0
#include "collector/cuda/decoder.h"

#include "collector/cuda/real_driver.h"
#include "collector/stacks/nap.h"

namespace memreel::cuda {
namespace {

/// Bits per channel of one element. Formats: CUarray_format in cuda.h. Block-compressed formats store 4 x 4
/// elements in 8 or 16 bytes; planar ones (video) store less than one value per channel and element.
struct ElementSize {
  unsigned bits_per_channel = 8;
  unsigned bits_in_all = 0;  // of all channels together, if the format alone determines it
};

ElementSize element_size(unsigned format) {
  switch (format) {
    case 0x02:
    case 0x09:
    case 0x10:
      return {.bits_per_channel = 16};
    case 0x03:
    case 0x0A:
    case 0x20:
      return {.bits_per_channel = 32};
    case 0x50:
      return {.bits_in_all = 32};  // 10, 10, 10 and 2 bits
    case 0xB0:
      return {.bits_in_all = 12};  // NV12
    case 0x9F:
    case 0xA1:
      return {.bits_in_all = 24};  // P010, P016
    case 0x91:
    case 0x92:
    case 0x97:
    case 0x98:
      return {.bits_in_all = 4};  // BC1, BC4
    default:
      break;
  }
  if (format >= 0x93 && format <= 0x9E) return {.bits_in_all = 8};  // BC2, 3, 5, 6, 7
  if (format >= 0xC0 && format <= 0xC5) return {.bits_in_all = (format < 0xC3 ? 8U : 16U) << ((format - 0xC0) % 3)};
  if (format >= 0xC6 && format <= 0xCB) return {.bits_in_all = (format < 0xC9 ? 8U : 16U) << ((format - 0xC6) % 3)};
  return {};
}

/// A dimension of 0 means that the array does not have it.
std::uint64_t extent(std::size_t size) { return std::max<std::size_t>(size, 1); }

std::uint64_t bytes(std::uint64_t elements, int format, unsigned channels) {
  const ElementSize element = element_size(static_cast<unsigned>(format));
  const std::uint64_t bits = element.bits_in_all != 0 ? element.bits_in_all : element.bits_per_channel * channels;
  return (elements * bits + 7) / 8;
}

}  // namespace

std::uint64_t array_size(const ArrayDescriptor& descriptor) {
  return bytes(extent(descriptor.width) * extent(descriptor.height), descriptor.format, descriptor.channels);
}

std::uint64_t array_size(const Array3dDescriptor& descriptor, unsigned levels) {
  constexpr unsigned layered = 1, cubemap = 4;  // CUDA_ARRAY3D_LAYERED, CUDA_ARRAY3D_CUBEMAP: depth counts layers
  const bool depth_shrinks = (descriptor.flags & (layered | cubemap)) == 0;
  std::uint64_t size = 0;
  for (unsigned level = 0; level < levels && level < 64; ++level) {
    const std::uint64_t depth = depth_shrinks ? extent(descriptor.depth >> level) : extent(descriptor.depth);
    size += bytes(extent(descriptor.width >> level) * extent(descriptor.height >> level) * depth, descriptor.format,
                  descriptor.channels);
  }
  return size;
}

KnownObjects::Known KnownObjects::find(const void* object) const {
  if (object == nullptr) return {};
  for (std::size_t i = 1; i < count(); ++i) {
    if (entries_[i].object.load(std::memory_order_acquire) != object) continue;
    return {static_cast<std::uint16_t>(i), entries_[i].device.load(std::memory_order_relaxed)};
  }
  return {};
}

KnownObjects::Known KnownObjects::add(const void* object, std::int16_t device) {
  if (object == nullptr) return {};
  devices_.fetch_or(std::uint64_t{1} << (static_cast<unsigned>(device) & 63U), std::memory_order_relaxed);
  while (true) {
    std::uint16_t count = count_.load(std::memory_order_acquire);
    // Before find(): what was added up to there is seen. Threads that add an object at once try the same entries in the
    // same order, and so meet at the first that is free.
    std::uint16_t number = latest_.load(std::memory_order_acquire);
    if (const Known known = find(object); known.number != 0) return known;
    for (std::uint16_t tried = 1; tried < count; ++tried) {
      number = number + 1 < count ? static_cast<std::uint16_t>(number + 1) : std::uint16_t{1};
      Entry& entry = entries_[number];
      const void* there = nullptr;
      if (entry.object.compare_exchange_strong(there, this, std::memory_order_acq_rel)) {
        entry.device.store(device, std::memory_order_relaxed);
        entry.object.store(object, std::memory_order_release);
        latest_.store(number, std::memory_order_release);
        return {number, device};
      }
      if (settled(entry) == object) return {number, entry.device.load(std::memory_order_relaxed)};
    }
    if (count >= entries_.size()) return {.device = device};
    count_.compare_exchange_strong(count, static_cast<std::uint16_t>(2 * count), std::memory_order_acq_rel);
  }
}

/// The object of an entry, once the thread that is adding it is done; which may be never: it may be another process's,
/// from before a fork.
const void* KnownObjects::settled(const Entry& entry) const {
  const void* there = nullptr;
  stacks::nap_until([&] { return (there = entry.object.load(std::memory_order_acquire)) != this; },
                    std::chrono::milliseconds(10));
  return there;
}

void KnownObjects::put(const void* object, std::int16_t device) {
  const Known known = find(object);
  if (known.number != 0 && known.device == device) return;
  if (known.number != 0) remove(known.number);
  add(object, device);
}

void KnownObjects::remove(std::uint16_t number) {
  if (number < entries_.size()) entries_[number].object.store(nullptr, std::memory_order_release);
}

namespace {

using agent::Record;
using agent::RecordKind;
using agent::Space;

constexpr std::int16_t host = host_device;

std::uint64_t number(const void* object) { return reinterpret_cast<std::uintptr_t>(object); }

}  // namespace

/// Records a release now, whatever the call's outcome.
std::uint64_t Decoder::taken(const CallSite& site, Record&& record) const {
  record.context = site.context.number;
  if (record.device == 0) record.device = site.context.device;
  return recorder_->emit_with_stack(record);
}

/// Records an allocation, or its failure.
void Decoder::given(const CallSite& site, Status status, Record&& record) const {
  if (status != success) {
    record.kind = RecordKind::alloc_failed;
    record.status = static_cast<std::uint16_t>(status);
    record.address = 0;
  }
  record.context = site.context.number;
  recorder_->emit_with_stack(record);
}

/// Like given(), but ignores failures.
void Decoder::note(const CallSite& site, Status status, Record&& record) const {
  if (status == success) given(site, status, std::move(record));
}

void Decoder::pointer_given(const CallSite& site, Status status, const DevicePointer* address, std::uint64_t size,
                            Space space) const {
  given(site, status,
        {.address = status == success ? *address : 0,
         .size = size,
         .device = site.context.device,
         .kind = RecordKind::alloc,
         .space = space});
}

void Decoder::host_given(const CallSite& site, Status status, void* const* address, std::uint64_t size) const {
  given(site, status,
        {.address = status == success ? number(*address) : 0,
         .size = size,
         .device = host,
         .kind = RecordKind::alloc,
         .space = Space::pinned});
}

void Decoder::ordered_given(const CallSite& site, Status status, const DevicePointer* address, std::uint64_t size,
                            Object pool, Object stream) const {
  const bool node = site.captured && status == success;
  given(site, status,
        {.address = status == success ? *address : 0,
         .size = size,
         .stream = number(stream),
         .object = number(pool),
         .device = site.context.device,
         .kind = node ? RecordKind::graph_alloc : RecordKind::alloc,
         .space = node ? Space::graph : Space::ordered});
}

/// The call states neither size nor device.
void Decoder::import_given(const CallSite& site, Status status, const DevicePointer* address) const {
  if (status != success) return;
  const auto extent = RealDriver::get().extent_of(*address);
  given(site, status,
        {.address = *address,
         .size = extent ? extent->size : 0,
         .device = extent ? static_cast<std::int16_t>(extent->device) : site.context.device,
         .kind = RecordKind::alloc,
         .space = Space::imported});
}

void Decoder::array_given(const CallSite& site, Status status, const Object* array, std::uint64_t size) const {
  given(site, status,
        {.address = status == success ? number(*array) : 0,
         .size = size,
         .device = site.context.device,
         .kind = RecordKind::alloc,
         .space = Space::array});
}

void Decoder::physical_given(const CallSite& site, Status status) const {
  const auto& p = of<Call::cuMemCreate>(site);
  given(
      site, status,
      {.size = p.size,
       .object = status == success ? *p.handle : 0,
       .device = p.properties != nullptr ? p.properties->location.device_or(site.context.device) : site.context.device,
       .kind = RecordKind::handle_created,
       .space = Space::physical});
}

void Decoder::node_given(const CallSite& site, Status status, const GraphNode* node) const {
  if (node == nullptr) return;
  if (node->type == mem_alloc_node)
    note(site, status,
         {.address = node->alloc.address,
          .size = node->alloc.size,
          .device = node->alloc.pool.location.device_or(site.context.device),
          .kind = RecordKind::graph_alloc,
          .space = Space::graph});
  else if (node->type == mem_free_node)
    note(
        site, status,
        {.address = node->freed, .device = site.context.device, .kind = RecordKind::graph_free, .space = Space::graph});
}

/// A pool that the program created or queried: where its memory is.
void Decoder::pool_found(const CallSite& site, Object pool, const Location& location, int allocation_type) const {
  recorder_->emit({.object = number(pool),
                   .device = location.device_or(site.context.device),
                   .context = site.context.number,
                   .kind = RecordKind::pool_created,
                   .space = allocation_type == managed_memory ? Space::managed : Space::ordered});
}

std::uint64_t Decoder::enter(const CallSite& site) const {
  const auto free = [&](std::uint64_t address, Space space, std::int16_t device = 0, std::uint64_t stream = 0) {
    if (address == 0) return std::uint64_t{0};
    return taken(site,
                 {.address = address, .stream = stream, .device = device, .kind = RecordKind::free, .space = space});
  };
  switch (site.call) {
    case Call::cuMemFree_v2:
      return free(of<Call::cuMemFree_v2>(site).address, Space::linear);
    case Call::cuMemFreeAsync:
    case Call::cuMemFreeAsync_ptsz: {
      const auto& p = of<Call::cuMemFreeAsync>(site);
      return free(p.address, Space::ordered, 0, number(p.stream));
    }
    case Call::cuMemFreeHost:
      return free(number(of<Call::cuMemFreeHost>(site).address), Space::pinned, host);
    case Call::cuMemHostUnregister:
      return free(number(of<Call::cuMemHostUnregister>(site).address), Space::registered, host);
    case Call::cuArrayDestroy:
    case Call::cuMipmappedArrayDestroy:
      return free(number(of<Call::cuArrayDestroy>(site).array), Space::array);
    case Call::cuIpcCloseMemHandle:
      return free(of<Call::cuIpcCloseMemHandle>(site).address, Space::imported);
    case Call::cuMemAddressFree: {
      const auto& p = of<Call::cuMemAddressFree>(site);
      return taken(site, {.address = p.address, .size = p.size, .kind = RecordKind::addresses_released});
    }
    case Call::cuMemRelease:
      return taken(site, {.object = of<Call::cuMemRelease>(site).handle, .kind = RecordKind::handle_released});
    case Call::cuMemUnmap: {
      const auto& p = of<Call::cuMemUnmap>(site);
      return taken(site, {.address = p.address, .size = p.size, .kind = RecordKind::unmapped});
    }
    case Call::cuMemPoolDestroy:
      return taken(site, {.object = number(of<Call::cuMemPoolDestroy>(site).pool), .kind = RecordKind::pool_destroyed});
    default:
      return 0;
  }
}

void Decoder::exit(const CallSite& site, Status status, std::uint64_t entered) const {
  if (entered != 0) {
    // A free that became a graph node has not freed anything yet.
    if (status != success || site.captured) recorder_->emit({.object = entered, .kind = RecordKind::free_cancelled});
    if (status == success && site.captured)
      note(site, status,
           {.address = of<Call::cuMemFreeAsync>(site).address,
            .device = site.context.device,
            .kind = RecordKind::graph_free,
            .space = Space::graph});
    return;
  }
  switch (site.call) {
    case Call::cuMemAlloc_v2: {
      const auto& p = of<Call::cuMemAlloc_v2>(site);
      return pointer_given(site, status, p.address, p.size, Space::linear);
    }
    case Call::cuMemAllocPitch_v2: {
      const auto& p = of<Call::cuMemAllocPitch_v2>(site);
      const std::size_t pitch = status == success ? *p.pitch : p.width;
      return pointer_given(site, status, p.address, pitch * p.height, Space::linear);
    }
    case Call::cuMemAllocManaged: {
      const auto& p = of<Call::cuMemAllocManaged>(site);
      return pointer_given(site, status, p.address, p.size, Space::managed);
    }
    case Call::cuMemAllocHost_v2: {
      const auto& p = of<Call::cuMemAllocHost_v2>(site);
      return host_given(site, status, p.address, p.size);
    }
    case Call::cuMemHostAlloc:
    case Call::cuMemHostAlloc_v2: {
      const auto& p = of<Call::cuMemHostAlloc>(site);
      return host_given(site, status, p.address, p.size);
    }
    case Call::cuMemHostRegister_v2:
    case Call::cuMemHostRegister: {
      const auto& p = of<Call::cuMemHostRegister_v2>(site);
      return note(site, status,
                  {.address = number(p.address),
                   .size = p.size,
                   .device = host,
                   .kind = RecordKind::alloc,
                   .space = Space::registered});
    }
    case Call::cuMemAllocAsync:
    case Call::cuMemAllocAsync_ptsz: {
      const auto& p = of<Call::cuMemAllocAsync>(site);
      return ordered_given(site, status, p.address, p.size, nullptr, p.stream);
    }
    case Call::cuMemAllocFromPoolAsync:
    case Call::cuMemAllocFromPoolAsync_ptsz: {
      const auto& p = of<Call::cuMemAllocFromPoolAsync>(site);
      return ordered_given(site, status, p.address, p.size, p.pool, p.stream);
    }
    case Call::cuArrayCreate_v2: {
      const auto& p = of<Call::cuArrayCreate_v2>(site);
      return array_given(site, status, p.array, p.descriptor != nullptr ? array_size(*p.descriptor) : 0);
    }
    case Call::cuArray3DCreate_v2: {
      const auto& p = of<Call::cuArray3DCreate_v2>(site);
      return array_given(site, status, p.array, p.descriptor != nullptr ? array_size(*p.descriptor) : 0);
    }
    case Call::cuMipmappedArrayCreate: {
      const auto& p = of<Call::cuMipmappedArrayCreate>(site);
      return array_given(site, status, p.array, p.descriptor != nullptr ? array_size(*p.descriptor, p.levels) : 0);
    }
    case Call::cuMemCreate:
      return physical_given(site, status);
    default:
      return exit_of_others(site, status);
  }
}

/// Calls whose failure is irrelevant to memory.
void Decoder::exit_of_others(const CallSite& site, Status status) const {
  if (status != success) return;
  const std::int16_t device = site.context.device;
  switch (site.call) {
    case Call::cuMemAddressReserve: {
      const auto& p = of<Call::cuMemAddressReserve>(site);
      return note(site, status,
                  {.address = *p.address, .size = p.size, .device = device, .kind = RecordKind::addresses_reserved});
    }
    case Call::cuMemMap: {
      const auto& p = of<Call::cuMemMap>(site);
      return note(site, status,
                  {.address = p.address,
                   .size = p.size,
                   .stream = p.offset,
                   .object = p.handle,
                   .device = device,
                   .kind = RecordKind::mapped,
                   .space = Space::physical});
    }
    case Call::cuMemImportFromShareableHandle: {
      const AllocationHandle handle = *of<Call::cuMemImportFromShareableHandle>(site).handle;
      return note(site, status,
                  {.object = handle,
                   .device = static_cast<std::int16_t>(RealDriver::get().device_of(handle).value_or(device)),
                   .kind = RecordKind::handle_imported});
    }
    case Call::cuMemRetainAllocationHandle: {
      const auto& p = of<Call::cuMemRetainAllocationHandle>(site);
      return note(site, status,
                  {.address = number(p.address), .object = *p.handle, .kind = RecordKind::handle_retained});
    }
    case Call::cuMemPoolCreate: {
      const auto& p = of<Call::cuMemPoolCreate>(site);
      return p.properties != nullptr ? pool_found(site, *p.pool, p.properties->location, p.properties->allocation_type)
                                     : pool_found(site, *p.pool, {Location::none, 0}, pinned_memory);
    }
    case Call::cuDeviceGetMemPool:
    case Call::cuDeviceGetDefaultMemPool: {
      const auto& p = of<Call::cuDeviceGetMemPool>(site);
      return pool_found(site, *p.pool, {Location::device, p.device}, pinned_memory);
    }
    case Call::cuMemGetMemPool:
    case Call::cuMemGetDefaultMemPool: {
      const auto& p = of<Call::cuMemGetMemPool>(site);
      return pool_found(site, *p.pool, *p.location, p.allocation_type);
    }
    case Call::cuMemPoolImportFromShareableHandle:
      return note(site, status,
                  {.object = number(*of<Call::cuMemPoolImportFromShareableHandle>(site).pool),
                   .device = device,
                   .kind = RecordKind::pool_created,
                   .space = Space::imported});
    case Call::cuDeviceSetMemPool: {
      const auto& p = of<Call::cuDeviceSetMemPool>(site);
      return note(
          site, status,
          {.object = number(p.pool), .device = static_cast<std::int16_t>(p.device), .kind = RecordKind::pool_chosen});
    }
    case Call::cuMemSetMemPool: {
      // Requests that name no pool use the device's pool of its own memory; other locations have no such pool.
      const auto& p = of<Call::cuMemSetMemPool>(site);
      if (p.location->type != Location::device || p.allocation_type != pinned_memory) return;
      return note(site, status,
                  {.object = number(p.pool),
                   .device = static_cast<std::int16_t>(p.location->id),
                   .kind = RecordKind::pool_chosen});
    }
    case Call::cuMemPoolImportPointer:
      return import_given(site, status, of<Call::cuMemPoolImportPointer>(site).address);
    case Call::cuIpcOpenMemHandle:
    case Call::cuIpcOpenMemHandle_v2:
      return import_given(site, status, of<Call::cuIpcOpenMemHandle>(site).address);
    case Call::cuExternalMemoryGetMappedBuffer: {
      const auto& p = of<Call::cuExternalMemoryGetMappedBuffer>(site);
      return pointer_given(site, status, p.address, p.buffer != nullptr ? p.buffer->size : 0, Space::imported);
    }
    case Call::cuGraphAddMemAllocNode: {
      const auto& p = of<Call::cuGraphAddMemAllocNode>(site);
      return note(site, status,
                  {.address = p.parameters->address,
                   .size = p.parameters->size,
                   .device = p.parameters->pool.location.device_or(device),
                   .kind = RecordKind::graph_alloc,
                   .space = Space::graph});
    }
    case Call::cuGraphAddMemFreeNode:
      return note(site, status,
                  {.address = of<Call::cuGraphAddMemFreeNode>(site).address,
                   .device = device,
                   .kind = RecordKind::graph_free,
                   .space = Space::graph});
    case Call::cuGraphAddNode:
      return node_given(site, status, of<Call::cuGraphAddNode>(site).parameters);
    case Call::cuGraphAddNode_v2:
    case Call::cuGraphAddNode_v3:
      return node_given(site, status, of<Call::cuGraphAddNode_v2>(site).parameters);
    default:
      return;
  }
}

void Decoder::context_created(KnownObjects::Known context) const {
  recorder_->emit({.device = context.device, .context = context.number, .kind = RecordKind::context_created});
}

void Decoder::context_destroyed(KnownObjects::Known context) const {
  recorder_->emit_with_stack(
      {.device = context.device, .context = context.number, .kind = RecordKind::context_destroyed});
}

}  // namespace memreel::cuda
