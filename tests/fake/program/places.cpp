// SPDX-License-Identifier: Apache-2.0
// Modes whose memory is neither where the current context is nor where an argument says: on the second GPU, if there is
// one, or on the host. They also run on real GPUs, skipping what the driver does not support.
#include <dlfcn.h>

#include <array>

#include "tests/fake/program/logged_calls.h"
#include "tests/fake/program/modes.h"

namespace fake_program {
namespace {

using fake::Location;

/// The primary contexts of the first and last of two devices.
struct Devices {
  int other = 0;
  fake::Context* first = nullptr;
  fake::Context* second = nullptr;
};

Devices both_devices() {
  Devices devices;
  int count = 0;
  must(cuInit(0), "cuInit");
  must(cuDeviceGetCount(&count), "cuDeviceGetCount");
  devices.other = count > 1 ? 1 : 0;
  must(cuDevicePrimaryCtxRetain(&devices.first, 0), "cuDevicePrimaryCtxRetain");
  must(cuDevicePrimaryCtxRetain(&devices.second, devices.other), "cuDevicePrimaryCtxRetain");
  return devices;
}

fake::Stream* stream_of(fake::Context* context) {
  fake::Stream* stream = nullptr;
  must(cuCtxSetCurrent(context), "cuCtxSetCurrent");
  must(cuStreamCreate(&stream, 1), "cuStreamCreate");
  return stream;
}

bool is_refused(Status status, const char* what) {
  if (status == fake::not_supported || status == fake::invalid_value || status == fake::invalid_device) return true;
  must(status, what);
  return false;
}

/// `device`: -1 for the host.
void use_pool(fake::Pool* pool, fake::Stream* stream, std::uint64_t size, int device) {
  DevicePointer pointer = 0;
  must(
      pool != nullptr ? cuMemAllocFromPoolAsync(&pointer, size, pool, stream) : cuMemAllocAsync(&pointer, size, stream),
      "cuMemAllocAsync");
  const char* const space = device < 0 ? "ordered-host" : "ordered";
  truth::say("alloc", space, pointer, size, device);
  truth::say("free", space, pointer, size, device);
  must(cuMemFreeAsync(pointer, stream), "cuMemFreeAsync");
}

/// A locality domain: two bytes.
constexpr Location domain_of(int device, int domain) {
  return {.type = Location::locality_domain, .id = device | domain << 8U};
}

constexpr int device_at(const Location& location, int otherwise) {
  return location.type == Location::device            ? location.id
         : location.type == Location::locality_domain ? location.id & 0xFF
         : location.type == Location::none            ? otherwise
                                                      : -1;
}

}  // namespace

/// Pools by location, both created and default. The current context is always the first device's.
int locations(const Numbers&) {
  const Devices devices = both_devices();
  const int other = devices.other;
  fake::Stream* const stream = stream_of(devices.first);
  struct Place {
    Location location;
    int type;
  };
  const std::array places{
      Place{{Location::device, other}, fake::pinned_memory},  Place{domain_of(other, 3), fake::pinned_memory},
      Place{{Location::host, 0}, fake::pinned_memory},        Place{{Location::host_numa, 0}, fake::pinned_memory},
      Place{{Location::device, other}, fake::managed_memory}, Place{{Location::none, 0}, fake::managed_memory},
  };
  std::uint64_t size = mib;
  for (auto [location, type] : places) {
    const int device = device_at(location, 0);
    fake::Pool* made = nullptr;
    fake::Pool* found = nullptr;
    const fake::PoolProperties properties{.allocation_type = type, .location = location};
    if (is_refused(cuMemPoolCreate(&made, &properties), "cuMemPoolCreate")) continue;
    use_pool(made, stream, size += mib, device);
    if (is_refused(cuMemGetDefaultMemPool(&found, &location, type), "cuMemGetDefaultMemPool")) continue;
    use_pool(found, stream, size += mib, device);
    if (is_refused(cuMemSetMemPool(&location, type, made), "cuMemSetMemPool")) continue;
    must(cuMemGetMemPool(&found, &location, type), "cuMemGetMemPool");
    if (found != made) return 97;
    use_pool(found, stream, size += mib, device);
    use_pool(nullptr, stream, size += mib, 0);  // the first device's current pool is still its own
  }
  fake::Pool* of_device = nullptr;
  must(cuDeviceGetDefaultMemPool(&of_device, other), "cuDeviceGetDefaultMemPool");
  use_pool(of_device, stream, size += mib, other);
  must(cuStreamSynchronize(stream), "cuStreamSynchronize");
  return 0;
}

/// Physical memory of a locality domain; memory nodes of a graph as CUDA 13.4 adds them, on the other device.
int nodes(const Numbers&) {
  const Devices devices = both_devices();
  must(cuCtxSetCurrent(devices.first), "cuCtxSetCurrent");
  const fake::AllocationProperties properties{.location = domain_of(devices.other, 2)};
  fake::AllocationHandle handle = 0;
  if (!is_refused(cuMemCreate(&handle, 2 * mib, &properties, 0), "cuMemCreate")) {
    truth::say("alloc", "physical", 0, 2 * mib, devices.other);
    truth::say("free", "physical", 0, 2 * mib, devices.other);
    must(cuMemRelease(handle), "cuMemRelease");
  }

  // Missing in older drivers, on which this program must start too.
  const auto add = reinterpret_cast<decltype(&cuGraphAddNode_v3)>(dlsym(RTLD_DEFAULT, "cuGraphAddNode_v3"));
  if (add == nullptr) return 0;
  fake::Graph* graph = nullptr;
  fake::GraphNode* node = nullptr;
  must(cuGraphCreate(&graph, 0), "cuGraphCreate");
  fake::NodeParameters parameters{.type = fake::NodeParameters::alloc_type};
  parameters.alloc = {.properties = {.location = {Location::device, devices.other}}, .size = 3 * mib};
  must(add(&node, graph, nullptr, nullptr, 0, &parameters), "cuGraphAddNode");
  const DevicePointer pointer = parameters.alloc.pointer;
  truth::say("node", "graph", pointer, 3 * mib, devices.other);
  fake::NodeParameters freed{.type = fake::NodeParameters::free_type};
  freed.freed = pointer;
  truth::say("free_node", "graph", pointer, 3 * mib, devices.other);
  must(add(&node, graph, &node, nullptr, 1, &freed), "cuGraphAddNode");
  must(cuGraphDestroy(graph), "cuGraphDestroy");
  return 0;
}

/// Green contexts. Their memory belongs to the device's primary context: it outlives them and is freed with that one.
int green(const Numbers&) {
  const Devices devices = both_devices();
  alignas(16) std::array<char, 1024> processors{};  // a CUdevResource, 144 bytes in CUDA 13.0
  constexpr int of_processors = 1;
  fake::ResourceDescriptor* all = nullptr;
  fake::GreenContext* handle = nullptr;
  fake::Context* context = nullptr;
  must(cuCtxSetCurrent(devices.first), "cuCtxSetCurrent");
  must(cuDeviceGetDevResource(devices.other, processors.data(), of_processors), "cuDeviceGetDevResource");
  must(cuDevResourceGenerateDesc(&all, processors.data(), 1), "cuDevResourceGenerateDesc");
  must(cuGreenCtxCreate(&handle, all, devices.other, 1), "cuGreenCtxCreate");
  must(cuCtxFromGreenCtx(&context, handle), "cuCtxFromGreenCtx");
  must(cuCtxSetCurrent(context), "cuCtxSetCurrent");
  DevicePointer first = 0, second = 0;
  must(cuMemAlloc_v2(&first, 3 * mib), "cuMemAlloc");
  truth::say("alloc", "linear", first, 3 * mib, devices.other);
  must(cuMemAlloc_v2(&second, 5 * mib), "cuMemAlloc");
  truth::say("alloc", "linear", second, 5 * mib, devices.other);
  use_pool(nullptr, stream_of(context), 7 * mib, devices.other);
  must(cuCtxSynchronize(), "cuCtxSynchronize");
  must(cuCtxSetCurrent(devices.second), "cuCtxSetCurrent");
  must(cuGreenCtxDestroy(handle), "cuGreenCtxDestroy");
  truth::say("free", "linear", first, 3 * mib, devices.other);
  must(cuMemFree_v2(first), "cuMemFree");
  truth::say("free", "linear", second, 5 * mib, devices.other);
  must(cuDevicePrimaryCtxReset_v2(devices.other), "cuDevicePrimaryCtxReset");
  return 0;
}

/// cuMemAllocAsync allocates on the stream's device, whatever the current context.
int foreign_streams(const Numbers& n) {
  const Devices devices = both_devices();
  const std::array contexts{devices.first, devices.second};
  const std::array streams{stream_of(contexts[0]), stream_of(contexts[1])};
  Random random(6);
  for (std::uint64_t i = 0; i < n[0]; ++i) {
    const std::size_t device = random() % 2;
    must(cuCtxSetCurrent(contexts[random() % 2]), "cuCtxSetCurrent");
    use_pool(nullptr, streams[device], random_size(random), device == 0 ? 0 : devices.other);
  }
  must(cuCtxSetCurrent(contexts[1]), "cuCtxSetCurrent");
  use_pool(nullptr, nullptr, mib, devices.other);
  return 0;
}

}  // namespace fake_program
