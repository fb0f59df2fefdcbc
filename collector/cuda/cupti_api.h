// The part of CUPTI's binary interface that is used, in our own words: the same from CUDA 11 to 13 but for how one
// subscribes (layout_check.cpp compares). The library is found at run time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace memreel::cuda::cupti {

using Result = int;                                 // CUptiResult
inline constexpr Result not_initialized = 15;       // among other reasons: the driver is older than the library
inline constexpr Result not_supported = 27;         // likewise, from 13.3 on
inline constexpr Result multiple_subscribers = 39;  // somebody else holds CUPTI, or it can't be shared as asked

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

/// CUpti_SubscriberParams.
struct SubscriberParams {
  std::size_t size;  // how much of this structure there is
  const char* name;  // ours; at most 53 characters
  char* old_name;    // gets the name of whoever holds CUPTI; 64 bytes or more
  std::size_t old_name_size;
  // From 13.2 on. 13.0 and 13.1 refuse a structure that is longer than what stands above.
  std::uint8_t allow_multiple;  // 1: others may subscribe, too. Has to be what the first subscriber said
  std::array<std::uint8_t, 7> reserved;
};
static_assert(sizeof(SubscriberParams) == 40);
inline constexpr std::size_t params_size_13_0 = offsetof(SubscriberParams, allow_multiple);

using Subscriber = void*;
using Callback = void (*)(void* user, int domain, std::uint32_t id, const void* data);

/// The functions, as dlsym finds them. Not among them: cuptiGetVersion and cuptiGetResultString, which from 13.2 on ask
/// the driver, fail where it is too old, and in 13.2 call each other then until the stack ends.
struct Functions {
  Result (*subscribe)(Subscriber* subscriber, Callback callback, void* user) = nullptr;
  Result (*subscribe_v2)(Subscriber* subscriber, Callback callback, void* user,
                         SubscriberParams* params) = nullptr;  // from 13.0; null before
  Result (*unsubscribe)(Subscriber subscriber) = nullptr;
  Result (*enable_callback)(std::uint32_t enable, Subscriber subscriber, int domain, std::uint32_t id) = nullptr;
  Result (*get_device_id)(void* context, std::uint32_t* device) = nullptr;

  // Which release it is, told by what it exports.
  bool has_long_params = false;  // 13.2 and newer
  bool can_be_shared = false;    // 13.3 and newer, by those who subscribe with subscribe_v2 and allow it
};

}  // namespace memreel::cuda::cupti
