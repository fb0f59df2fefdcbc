// SPDX-License-Identifier: Apache-2.0
// Streams, pools, graphs and capture of the fake libcuda.so.1. Streams hold no queue: everything runs at once.
#include <mutex>
#include <utility>

#include "tests/fake/call.h"
#include "tests/fake/driver.h"

namespace fake {

GraphNode* add_node(Graph& graph, GraphNode node) {
  node.graph = &graph;
  graph.nodes.push_back(std::make_unique<GraphNode>(node));
  GraphNode* const added = graph.nodes.back().get();
  // As in CUPTI 13.0 on driver 580: the type is reported before, not after.
  cupti::GraphData starting{.graph = &graph, .node_type = node.allocates ? cupti::alloc_node : cupti::free_node};
  announce(cupti::graph_node_create_starting, current_context(), &starting);
  cupti::GraphData created{.graph = &graph, .node = added};
  announce(cupti::graph_node_created, current_context(), &created);
  return added;
}

}  // namespace fake

using namespace fake;

namespace {

constexpr std::uint64_t longest_event_delay = 1U << 20U;

bool is_capturing(const Stream* stream) {
  // The three legacy handles 0, 1 and 2 can't be captured.
  return reinterpret_cast<std::uintptr_t>(stream) > 2 && stream->capturing != nullptr;
}

/// Of the context in which the stream was created.
Context* context_of(const Stream* stream) {
  return reinterpret_cast<std::uintptr_t>(stream) > 2 && stream->context != nullptr ? stream->context
                                                                                    : current_context();
}

std::size_t device_of(const Stream* stream) { return static_cast<std::size_t>(context_of(stream)->device); }

DevicePointer graph_address(std::uint64_t size, Gpu* gpu) {
  const std::lock_guard lock(driver().mutex);
  const DevicePointer pointer = gpu->reserve(size);
  driver().graph_memory.insert(pointer);
  return pointer;
}

Status malloc_async(DevicePointer* pointer, std::uint64_t size, Pool* pool, Stream* stream) {
  if (current_context() == nullptr) return invalid_context;
  if (size == 0) return invalid_value;
  if (is_capturing(stream)) {
    *pointer = graph_address(size, driver().gpus[device_of(stream)].get());
    add_node(*stream->capturing, {.allocates = true, .pointer = *pointer, .size = size});
    return success;
  }
  const std::lock_guard lock(driver().mutex);
  if (pool == nullptr) pool = driver().current_pools[device_of(stream)];
  const DevicePointer got = pool->malloc(size);
  if (got == 0) return out_of_memory;
  driver().pool_of[got] = pool;
  *pointer = got;
  return success;
}

bool is_device_pool(const Location& location, int type) {
  return location.type == Location::device && type == pinned_memory;
}

/// Called with the driver's lock held, like the next one.
Pool* default_pool_at(const Location& location, int type) {
  if (is_device_pool(location, type)) return driver().default_pools[static_cast<std::size_t>(location.id)].get();
  auto& pool = driver().default_pools_elsewhere[{location.type, location.id, type}];
  if (pool == nullptr) {
    pool = std::make_unique<Pool>();
    pool->gpu = memory_at(location);
  }
  return pool.get();
}

Pool*& current_pool_at(const Location& location, int type) {
  if (is_device_pool(location, type)) return driver().current_pools[static_cast<std::size_t>(location.id)];
  Pool*& pool = driver().current_pools_elsewhere[{location.type, location.id, type}];
  if (pool == nullptr) pool = default_pool_at(location, type);
  return pool;
}

Status free_async(DevicePointer pointer, Stream* stream) {
  if (is_capturing(stream)) {
    add_node(*stream->capturing, {.pointer = pointer});
    return success;
  }
  const std::lock_guard lock(driver().mutex);
  if (driver().graph_live.erase(pointer) != 0) return success;
  const auto found = driver().pool_of.find(pointer);
  if (found == driver().pool_of.end()) return invalid_value;
  found->second->free(pointer);
  driver().pool_of.erase(found);
  return success;
}

/// Synchronization completes events and trims pools to their release threshold.
void synchronize() {
  const std::lock_guard lock(driver().mutex);
  driver().clock += longest_event_delay;
  for (auto& pool : driver().default_pools) pool->trim(pool->threshold);
  for (const auto& pool : driver().pools) pool->trim(pool->threshold);
}

std::uint64_t graph_used() {
  std::uint64_t used = 0;
  for (const auto& [pointer, size] : driver().graph_live) used += size;
  return used;
}

Status launch(GraphExec* exec) {
  const std::lock_guard lock(driver().mutex);
  for (const GraphNode& node : exec->nodes) {
    if (!node.allocates) {
      driver().graph_live.erase(node.pointer);
      continue;
    }
    driver().graph_live[node.pointer] = node.size;
    if (const std::uint64_t used = graph_used(); used > driver().graph_reserved) {
      if (!driver().gpus.front()->take(used - driver().graph_reserved)) return out_of_memory;
      driver().graph_reserved = used;
    }
  }
  return success;
}

Status instantiate(GraphExec** exec, Graph* graph) {
  auto* const made = new GraphExec;
  for (const auto& node : graph->nodes) made->nodes.push_back(*node);
  return *exec = made, success;
}

}  // namespace

extern "C" {

Status cuStreamCreateWithPriority(Stream** stream, unsigned, int priority) {
  if (!initialized()) return not_initialized;
  const std::lock_guard lock(driver().mutex);
  *stream = new Stream{.context = current_context(), .priority = priority};
  driver().streams.insert(*stream);
  return success;
}
Status cuStreamCreate(Stream** stream, unsigned flags) { return cuStreamCreateWithPriority(stream, flags, 0); }
Status cuStreamGetCtx(Stream* stream, Context** context) { return *context = context_of(stream), success; }
Status cuStreamGetDevice(Stream* stream, DeviceNumber* device) {
  return *device = static_cast<DeviceNumber>(device_of(stream)), success;
}
Status cuStreamDestroy_v2(Stream* stream) {
  const std::lock_guard lock(driver().mutex);
  driver().streams.erase(stream);
  return delete stream, success;
}
Status cuStreamSynchronize(Stream* stream) {
  return call(functions::cuStreamSynchronize, arguments::StreamSynchronize{stream},
              [] { return synchronize(), success; });
}
Status cuCtxSynchronize() {
  return call(functions::cuCtxSynchronize, arguments::Nothing{}, [] { return synchronize(), success; });
}
/// During capture, the waiting stream joins it.
Status cuStreamWaitEvent(Stream* stream, Event* event, unsigned) {
  const std::lock_guard lock(driver().mutex);
  if (event->capturing == nullptr || reinterpret_cast<std::uintptr_t>(stream) <= 2) return success;
  if (stream->capturing == nullptr) stream->joined = true;
  return stream->capturing = event->capturing, success;
}
Status cuEventCreate(Event** event, unsigned) { return *event = new Event, success; }
Status cuEventRecord(Event* event, Stream* stream) {
  const std::lock_guard lock(driver().mutex);
  event->capturing = is_capturing(stream) ? stream->capturing : nullptr;
  event->due = ++driver().clock + event_delay();
  return success;
}
Status cuEventQuery(Event* event) {
  const std::lock_guard lock(driver().mutex);
  if (event->capturing != nullptr) return capture_unsupported;
  return ++driver().clock >= event->due ? success : not_ready;
}
Status cuEventSynchronize(Event* event) {
  const std::lock_guard lock(driver().mutex);
  return event->due = 0, success;
}
Status cuEventDestroy_v2(Event* event) { return delete event, success; }

Status cuDeviceGetDefaultMemPool(Pool** pool, DeviceNumber device) {
  return call(functions::cuDeviceGetDefaultMemPool, arguments::DeviceGetMemPool{pool, device},
              [&] { return *pool = driver().default_pools[static_cast<std::size_t>(device)].get(), success; });
}
Status cuDeviceGetMemPool(Pool** pool, DeviceNumber device) {
  return call(functions::cuDeviceGetMemPool, arguments::DeviceGetMemPool{pool, device},
              [&] { return *pool = driver().current_pools[static_cast<std::size_t>(device)], success; });
}
Status cuMemGetDefaultMemPool(Pool** pool, Location* location, int type) {
  return call(functions::cuMemGetDefaultMemPool, arguments::MemGetMemPool{pool, location, type}, [&] {
    const std::lock_guard lock(driver().mutex);
    return *pool = default_pool_at(*location, type), success;
  });
}
Status cuMemGetMemPool(Pool** pool, Location* location, int type) {
  return call(functions::cuMemGetMemPool, arguments::MemGetMemPool{pool, location, type}, [&] {
    const std::lock_guard lock(driver().mutex);
    return *pool = current_pool_at(*location, type), success;
  });
}
Status cuMemSetMemPool(Location* location, int type, Pool* pool) {
  return call(functions::cuMemSetMemPool, arguments::MemSetMemPool{location, type, pool}, [&] {
    const std::lock_guard lock(driver().mutex);
    return current_pool_at(*location, type) = pool, success;
  });
}
Status cuDeviceSetMemPool(DeviceNumber device, Pool* pool) {
  return call(functions::cuDeviceSetMemPool, arguments::DeviceSetMemPool{device, pool},
              [&] { return driver().current_pools[static_cast<std::size_t>(device)] = pool, success; });
}
Status cuMemPoolCreate(Pool** pool, const PoolProperties* properties) {
  return call(functions::cuMemPoolCreate, arguments::MemPoolCreate{pool, properties}, [&] {
    const std::lock_guard lock(driver().mutex);
    auto made = std::make_unique<Pool>();
    made->gpu = memory_at(properties->location);
    made->max = properties->max_size;
    *pool = made.get();
    driver().pools.insert(std::move(made));
    return success;
  });
}
/// Live allocations outlive the pool; its memory is released when the last of them is freed, or never.
Status cuMemPoolDestroy(Pool* pool) {
  return call(functions::cuMemPoolDestroy, arguments::MemPoolDestroy{pool}, [&] {
    const std::lock_guard lock(driver().mutex);
    for (const auto& known : driver().default_pools)
      if (known.get() == pool) return invalid_value;
    pool->destroyed = true;
    pool->threshold = 0;
    pool->trim(0);
    for (std::size_t device = 0; device < driver().current_pools.size(); ++device)
      if (driver().current_pools[device] == pool) driver().current_pools[device] = driver().default_pools[device].get();
    return success;
  });
}
Status cuMemPoolTrimTo(Pool* pool, std::size_t keep) {
  return call(functions::cuMemPoolTrimTo, arguments::MemPoolTrimTo{pool, keep}, [&] {
    const std::lock_guard lock(driver().mutex);
    return pool->trim(keep), success;
  });
}
Status cuMemPoolSetAttribute(Pool* pool, PoolAttribute attribute, void* value) {
  return call(functions::cuMemPoolSetAttribute, arguments::MemPoolSetAttribute{pool, attribute, value}, [&] {
    const std::lock_guard lock(driver().mutex);
    if (attribute == PoolAttribute::release_threshold) pool->threshold = *static_cast<std::uint64_t*>(value);
    return success;
  });
}
Status cuMemPoolGetAttribute(Pool* pool, PoolAttribute attribute, void* value) {
  return call(functions::cuMemPoolGetAttribute, arguments::MemPoolSetAttribute{pool, attribute, value}, [&] {
    const std::lock_guard lock(driver().mutex);
    auto& answer = *static_cast<std::uint64_t*>(value);
    switch (attribute) {
      case PoolAttribute::release_threshold:
        return answer = pool->threshold, success;
      case PoolAttribute::reserved_current:
        return answer = pool->reserved, success;
      case PoolAttribute::reserved_high:
        return answer = pool->reserved_high, success;
      case PoolAttribute::used_current:
        return answer = pool->used, success;
      case PoolAttribute::used_high:
        return answer = pool->used_high, success;
    }
    return invalid_value;
  });
}

Status cuMemAllocAsync(DevicePointer* pointer, std::size_t size, Stream* stream) {
  return call(functions::cuMemAllocAsync, arguments::MemAllocAsync{pointer, size, stream},
              [&] { return malloc_async(pointer, size, nullptr, stream); });
}
Status cuMemAllocAsync_ptsz(DevicePointer* pointer, std::size_t size, Stream* stream) {
  return call(functions::cuMemAllocAsync_ptsz, arguments::MemAllocAsync{pointer, size, stream},
              [&] { return malloc_async(pointer, size, nullptr, stream); });
}
Status cuMemAllocFromPoolAsync(DevicePointer* pointer, std::size_t size, Pool* pool, Stream* stream) {
  return call(functions::cuMemAllocFromPoolAsync, arguments::MemAllocFromPoolAsync{pointer, size, pool, stream},
              [&] { return malloc_async(pointer, size, pool, stream); });
}
Status cuMemFreeAsync(DevicePointer pointer, Stream* stream) {
  return call(functions::cuMemFreeAsync, arguments::MemFreeAsync{pointer, stream},
              [&] { return free_async(pointer, stream); });
}
Status cuMemFreeAsync_ptsz(DevicePointer pointer, Stream* stream) {
  return call(functions::cuMemFreeAsync_ptsz, arguments::MemFreeAsync{pointer, stream},
              [&] { return free_async(pointer, stream); });
}

Status cuStreamBeginCapture_v2(Stream* stream, int mode) {
  return call(functions::cuStreamBeginCapture_v2, arguments::StreamBeginCapture{stream, mode}, [&] {
    if (stream == nullptr || stream->capturing != nullptr) return illegal_state;
    const std::lock_guard lock(driver().mutex);
    stream->joined = false;
    return stream->capturing = new Graph{.number = ++driver().captures}, success;
  });
}
Status cuStreamEndCapture(Stream* stream, Graph** graph) {
  return call(functions::cuStreamEndCapture, arguments::StreamEndCapture{stream, graph}, [&] {
    if (stream == nullptr || stream->capturing == nullptr || stream->joined) return illegal_state;
    const std::lock_guard lock(driver().mutex);
    *graph = stream->capturing;
    for (Stream* each : driver().streams)
      if (each->capturing == *graph) each->capturing = nullptr;
    return stream->capturing = nullptr, success;
  });
}
Status cuStreamIsCapturing(Stream* stream, int* status) { return *status = is_capturing(stream) ? 1 : 0, success; }

Status cuStreamGetCaptureInfo_v2(Stream* stream, int* status, std::uint64_t* number, Graph** graph, void***,
                                 std::size_t* dependencies) {
  const bool capturing = is_capturing(stream);
  *status = capturing ? 1 : 0;
  if (capturing && number != nullptr) *number = stream->capturing->number;
  if (capturing && graph != nullptr) *graph = stream->capturing;
  if (dependencies != nullptr) *dependencies = 0;
  return success;
}

Status cuGraphCreate(Graph** graph, unsigned) { return *graph = new Graph, success; }
Status cuGraphAddMemAllocNode(GraphNode** node, Graph* graph, GraphNode* const* dependencies, std::size_t count,
                              AllocNodeParameters* parameters) {
  return call(functions::cuGraphAddMemAllocNode,
              arguments::GraphAddMemAllocNode{node, graph, dependencies, count, parameters}, [&] {
                parameters->pointer = graph_address(parameters->size, memory_at(parameters->properties.location));
                *node = add_node(*graph, {.allocates = true, .pointer = parameters->pointer, .size = parameters->size});
                return success;
              });
}
Status cuGraphAddMemFreeNode(GraphNode** node, Graph* graph, GraphNode* const* dependencies, std::size_t count,
                             DevicePointer pointer) {
  return call(functions::cuGraphAddMemFreeNode,
              arguments::GraphAddMemFreeNode{node, graph, dependencies, count, pointer},
              [&] { return *node = add_node(*graph, {.pointer = pointer}), success; });
}
Status cuGraphAddNode_v3(GraphNode** node, Graph* graph, GraphNode* const* dependencies, const void* edges,
                         std::size_t count, NodeParameters* parameters) {
  return call(functions::cuGraphAddNode_v3,
              arguments::GraphAddNode{node, graph, dependencies, edges, count, parameters}, [&] {
                if (parameters->type == NodeParameters::free_type)
                  return *node = add_node(*graph, {.pointer = parameters->freed}), success;
                if (parameters->type != NodeParameters::alloc_type) return not_supported;
                AllocNodeParameters& alloc = parameters->alloc;
                alloc.pointer = graph_address(alloc.size, memory_at(alloc.properties.location));
                *node = add_node(*graph, {.allocates = true, .pointer = alloc.pointer, .size = alloc.size});
                return success;
              });
}
Status cuGraphInstantiateWithFlags(GraphExec** exec, Graph* graph, unsigned long long flags) {
  return call(functions::cuGraphInstantiateWithFlags, arguments::GraphInstantiateWithFlags{exec, graph, flags},
              [&] { return instantiate(exec, graph); });
}
Status cuGraphLaunch(GraphExec* exec, Stream* stream) {
  return call(functions::cuGraphLaunch, arguments::GraphLaunch{exec, stream}, [&] { return launch(exec); });
}
Status cuGraphExecDestroy(GraphExec* exec) {
  return call(functions::cuGraphExecDestroy, arguments::GraphExecDestroy{exec}, [&] { return delete exec, success; });
}
Status cuGraphDestroy(Graph* graph) {
  return call(functions::cuGraphDestroy, arguments::GraphDestroy{graph}, [&] { return delete graph, success; });
}
Status cuDeviceGraphMemTrim(DeviceNumber device) {
  return call(functions::cuDeviceGraphMemTrim, arguments::GraphMemTrim{device}, [] {
    const std::lock_guard lock(driver().mutex);
    driver().gpus.front()->give_back(driver().graph_reserved - graph_used());
    return driver().graph_reserved = graph_used(), success;
  });
}
Status cuDeviceGetGraphMemAttribute(DeviceNumber device, int attribute, void* value) {
  constexpr int used_current = 0, reserved_current = 2;
  if (attribute != used_current && attribute != reserved_current) return invalid_value;
  const std::lock_guard lock(driver().mutex);
  const std::uint64_t bytes = attribute == used_current ? graph_used() : driver().graph_reserved;
  return *static_cast<std::uint64_t*>(value) = device == 0 ? bytes : 0, success;
}
}
