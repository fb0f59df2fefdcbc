// The state of the fake driver: one per process, as in the real one.
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
#include "tests/fake/gpu.h"

namespace fake {

struct Context {
  int device = 0;
  std::uint32_t number = 0;
  bool primary = false;
  Context* green_of = nullptr;  // the primary context that owns memory requested in a green one
  int retained = 0;
  std::set<DevicePointer> linear;  // freed with the context
  std::set<Array*> arrays;
};

/// A share of a device's processors. Its context differs from its handle.
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
  bool allocates = false;  // else frees
  DevicePointer pointer = 0;
  std::uint64_t size = 0;
};

struct Graph {
  std::uint64_t number = 0;  // of the capture that made it, from 1
  std::vector<std::unique_ptr<GraphNode>> nodes;
};

struct GraphExec {
  std::vector<GraphNode> nodes;
};

struct Stream {
  Context* context = nullptr;  // current when it was made
  Graph* capturing = nullptr;
  bool joined = false;  // by an event of the stream that began the capture, which ends it for both
  int priority = 0;
};

struct Event {
  Graph* capturing = nullptr;  // recorded while this was captured; waiting for it joins the capture
  std::uint64_t due = 0;       // complete once Driver::clock has reached this
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

/// Another process's memory.
struct Opened {
  std::uint64_t size = 0;
  int device = 0, times = 0;
};

struct Driver {
  std::mutex mutex;  // guards everything below; never held while a listener runs
  std::vector<std::unique_ptr<Gpu>> gpus;
  std::vector<std::unique_ptr<Context>> primary;
  std::unique_ptr<Gpu> host_memory;  // of pools that are not on a device
  std::vector<std::unique_ptr<Pool>> default_pools;
  std::vector<Pool*> current_pools;
  /// Pools of the other kinds requested so far, by type and number of the location and type of the memory.
  std::map<std::array<int, 3>, std::unique_ptr<Pool>> default_pools_elsewhere;
  std::map<std::array<int, 3>, Pool*> current_pools_elsewhere;
  std::set<Context*> contexts;
  std::uint32_t context_count = 0;
  std::set<std::unique_ptr<Pool>> pools;
  std::set<Stream*> streams;
  std::uint64_t captures = 0;
  std::uint64_t clock = 0;                 // calls about events so far; FAKE_CUDA_EVENT_DELAY
  std::map<DevicePointer, Pool*> pool_of;  // of what lives in a pool
  std::map<DevicePointer, Context*> context_of;
  std::map<void*, std::uint64_t> host;  // page-locked, with sizes
  std::set<void*> registered;
  std::map<DevicePointer, std::uint64_t> reservations;
  std::map<AllocationHandle, Physical> physical;
  std::map<DevicePointer, Mapping> mappings;
  AllocationHandle next_handle = 1;
  std::map<DevicePointer, Opened> opened;             // through IPC
  std::map<DevicePointer, std::uint64_t> external;    // mapped buffers
  std::set<DevicePointer> graph_memory;               // addresses of alloc nodes, fixed for their life
  std::map<DevicePointer, std::uint64_t> graph_live;  // of them, those allocated by a launch
};

/// Of this process; made by cuInit.
Driver& driver();
bool initialized();

/// The source of memory at that location.
Gpu* memory_at(const Location& location);

/// The context that owns memory requested in `context`.
inline Context* owner(Context* context) {
  return context != nullptr && context->green_of != nullptr ? context->green_of : context;
}

/// The device that the calling thread's context is on; `nullptr` when it has none.
Gpu* current_gpu();
Context* current_context();

/// The number of event calls until an event recorded now is complete; 0: at once.
std::uint64_t event_delay();

/// Adds a node to a graph and notifies listeners, as capture does for a stream-ordered call.
GraphNode* add_node(Graph& graph, GraphNode node);

}  // namespace fake
