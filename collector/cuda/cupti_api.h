// The part of CUPTI's binary interface that is used, in our own words: the same from CUDA 11 to 13 (layout_check.cpp
// compares). The library is found at run time.
#pragma once

#include <cstddef>
#include <cstdint>

namespace memreel::cuda::cupti {

using Result = int;                                 // CUptiResult
inline constexpr Result multiple_subscribers = 39;  // somebody else holds CUPTI

inline constexpr int domain_driver = 1;
inline constexpr int domain_resource = 3;

// Callbacks of the resource domain.
inline constexpr std::uint32_t context_created = 1;
inline constexpr std::uint32_t context_destroy_starting = 2;
inline constexpr std::uint32_t graph_node_create_starting =
    12;  // tells the node's type; graph_node_created (13) does not

/// What a callback of the driver domain gets.
struct CallbackData {
  int site;  // 0: enter, 1: exit
  const char* function;
  const void* parameters;  // one of cuda::params
  void* result;            // at exit: the call's CUresult
  const char* symbol;
  void* context;
  std::uint32_t context_number;
  std::uint64_t* slot;  // 8 bytes of ours, the same at enter and exit of one call
  std::uint32_t correlation;
};
static_assert(sizeof(CallbackData) == 72);

/// What a callback of the resource domain gets.
struct ResourceData {
  void* context;
  void* stream;
  void* descriptor;  // of graphs: GraphData
};

struct GraphData {
  void* graph;
  void* original_graph;
  void* node;
  void* original_node;
  int node_type;
  void* dependency;
  void* executable;
};
static_assert(sizeof(GraphData) == 56);

struct SubscriberParams {
  std::size_t size;
  const char* name;  // ours; at most 53 characters
  char* old_name;    // gets the name of whoever holds CUPTI; 64 bytes or more
  std::size_t old_name_size;
};
static_assert(sizeof(SubscriberParams) == 32);

using Subscriber = void*;
using Callback = void (*)(void* user, int domain, std::uint32_t id, const void* data);

/// The functions, as dlsym finds them. Those marked so may be missing.
struct Functions {
  Result (*get_version)(std::uint32_t* version) = nullptr;
  Result (*subscribe)(Subscriber* subscriber, Callback callback, void* user) = nullptr;
  Result (*subscribe_v2)(Subscriber* subscriber, Callback callback, void* user,
                         SubscriberParams* params) = nullptr;  // from 13.0
  Result (*unsubscribe)(Subscriber subscriber) = nullptr;
  Result (*enable_callback)(std::uint32_t enable, Subscriber subscriber, int domain, std::uint32_t id) = nullptr;
  Result (*get_device_id)(void* context, std::uint32_t* device) = nullptr;
  Result (*get_result_string)(Result result, const char** text) = nullptr;
};

}  // namespace memreel::cuda::cupti
