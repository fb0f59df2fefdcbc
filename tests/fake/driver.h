// SPDX-License-Identifier: Apache-2.0
// The state of the fake driver: one per process, like the real one's.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "tests/fake/abi.h"
#include "tests/fake/simulated_gpu.h"

namespace fake {

struct Context {
  int device = 0;
  std::uint32_t number = 0;
  bool primary = false;
  Context* green_of = nullptr;  // the primary context that owns memory allocated in a green one
  int retained = 0;
  std::set<DevicePointer> linear;  // freed with the context
  std::set<Array*> arrays;
};

/// A share of a device's processors. Its context is not stored in the handle itself.
struct GreenContext {
  std::unique_ptr<Context> context;
};

struct Array {
  Context* context = nullptr;
  Gpu* gpu = nullptr;
  std::uint64_t size = 0;
};

struct GraphNode {
  Graph* graph = nullptr;
  bool allocates = false;  // otherwise it frees
  DevicePointer pointer = 0;
  std::uint64_t size = 0;
};

struct Graph {
  std::uint64_t number = 0;  // of the capture that made it, counted from 1
  std::vector<std::unique_ptr<GraphNode>> nodes;
};

struct GraphExec {
  std::vector<GraphNode> nodes;
};

struct Stream {
  Context* context = nullptr;  // current at creation
  Graph* capturing = nullptr;
  bool joined = false;  // through an event of the capture's origin stream, whose end ends it for both
  int priority = 0;
};

struct Event {
  Graph* capturing = nullptr;  // was being captured when recorded; waiting on it joins the capture
  std::uint64_t due = 0;       // complete once Driver::clock reaches this
};

struct Physical {
  Gpu* gpu = nullptr;
  std::uint64_t size = 0;
  int handles = 1, mappings = 0;
  AllocationProperties properties;
};

struct Mapping {
  std::uint64_t size = 0;
  AllocationHandle handle = 0;
};

struct ExternalMemory {
  std::uint64_t size = 0;
};

/// Memory of another process.
struct Opened {
  std::uint64_t size = 0;
  int device = 0, times = 0;
};

struct Driver {
  std::mutex mutex;  // guards everything below; never held while a listener runs
  std::vector<std::unique_ptr<Gpu>> gpus;
  std::vector<std::unique_ptr<Context>> primary;
  std::unique_ptr<Gpu> host_memory;  // for pools that are not on a device
  std::vector<std::unique_ptr<Pool>> default_pools;
  std::vector<Pool*> current_pools;
  /// Default pools of the other kinds, created on request, by location type, location id and memory type.
  std::map<std::array<int, 3>, std::unique_ptr<Pool>> default_pools_elsewhere;
  std::map<std::array<int, 3>, Pool*> current_pools_elsewhere;
  std::set<Context*> contexts;
  std::uint32_t context_count = 0;
  std::set<std::unique_ptr<Pool>> pools;
  std::set<Stream*> streams;
  std::uint64_t captures = 0;
  std::uint64_t clock = 0;                 // event calls so far; FAKE_CUDA_EVENT_DELAY
  std::map<DevicePointer, Pool*> pool_of;  // for allocations from a pool
  std::map<DevicePointer, Context*> context_of;
  std::map<void*, std::uint64_t> host;  // page-locked, with sizes
  std::set<void*> registered;
  std::map<DevicePointer, std::uint64_t> reservations;
  std::map<AllocationHandle, Physical> physical;
  std::map<DevicePointer, Mapping> mappings;
  AllocationHandle next_handle = 1;
  std::map<DevicePointer, Opened> opened;             // through IPC
  std::map<DevicePointer, std::uint64_t> external;    // mapped buffers
  std::set<DevicePointer> graph_memory;               // addresses of alloc nodes, fixed for the nodes' lifetime
  std::map<DevicePointer, std::uint64_t> graph_live;  // the subset that a launch has allocated
  std::uint64_t graph_reserved = 0;                   // physical memory for it, of the first GPU, until it is trimmed
};

/// This process's state; created by cuInit.
Driver& driver();
bool initialized();

/// The source of memory at that location.
Gpu* memory_at(const Location& location);

/// The context that owns memory allocated in `context`.
inline Context* owner(Context* context) {
  return context != nullptr && context->green_of != nullptr ? context->green_of : context;
}

/// The device of the calling thread's context; `nullptr` when it has none.
Gpu* current_gpu();
Context* current_context();

/// How many event calls it takes before an event recorded now is complete; 0: it completes at once.
std::uint64_t event_delay();

/// Adds a node to a graph and notifies listeners, as capture does for a stream-ordered call.
GraphNode* add_node(Graph& graph, GraphNode node);

}  // namespace fake
