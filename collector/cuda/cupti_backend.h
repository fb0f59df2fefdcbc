// SPDX-License-Identifier: Apache-2.0
// Driver calls, as CUPTI reports them.
#pragma once

#include <array>
#include <filesystem>

#include "collector/cuda/real_driver.h"
#include "collector/cuda/watch.h"
#include "formats/model/result.h"

// The part of CUPTI's binary interface that memreel uses, redeclared: identical from CUDA 11 to 13 except for
// subscribing (layout_check.cpp compares). The library is found at run time.

namespace memreel::cuda::cupti {

using Result = int;                                 // CUptiResult
inline constexpr Result not_initialized = 15;       // for one, if the driver is older than the library
inline constexpr Result not_supported = 27;         // likewise, since 13.3
inline constexpr Result multiple_subscribers = 39;  // CUPTI is held by another subscriber, or can't be shared as asked

inline constexpr int domain_driver = 1;
inline constexpr int domain_resource = 3;

// Callbacks of the resource domain.
inline constexpr std::uint32_t context_created = 1;
inline constexpr std::uint32_t context_destroy_starting = 2;
inline constexpr std::uint32_t graph_node_create_starting =
    12;  // gives the node's type; graph_node_created (13) does not

/// What a callback in the driver domain receives.
struct CallbackData {
  int site;  // 0: enter, 1: exit
  const char* function;
  const void* parameters;  // one of cuda::params
  void* result;            // at exit: the call's CUresult
  const char* symbol;
  void* context;
  std::uint32_t context_number;
  std::uint64_t* slot;  // 8 bytes for the subscriber, the same at enter and exit of one call
  std::uint32_t correlation;
};
static_assert(sizeof(CallbackData) == 72);

/// What a callback in the resource domain receives.
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
  std::size_t size;  // of this structure
  const char* name;  // ours; at most 53 characters
  char* old_name;    // receives the name of the current subscriber; 64 bytes or more
  std::size_t old_name_size;
  // Since 13.2. 13.0 and 13.1 refuse a structure that is longer than the fields above.
  std::uint8_t allow_multiple;  // 1: others may subscribe too. Must match the first subscriber's value
  std::array<std::uint8_t, 7> reserved;
};
static_assert(sizeof(SubscriberParams) == 40);
inline constexpr std::size_t params_size_13_0 = offsetof(SubscriberParams, allow_multiple);

using Subscriber = void*;
using Callback = void (*)(void* user, int domain, std::uint32_t id, const void* data);

/// The functions, as dlsym finds them. cuptiGetVersion and cuptiGetResultString are not used: since 13.2 they query the
/// driver, fail if it is too old, and in 13.2 then call each other until the stack overflows.
struct Functions {
  Result (*subscribe)(Subscriber* subscriber, Callback callback, void* user) = nullptr;
  Result (*subscribe_v2)(Subscriber* subscriber, Callback callback, void* user,
                         SubscriberParams* params) = nullptr;  // since 13.0; null before
  Result (*unsubscribe)(Subscriber subscriber) = nullptr;
  Result (*enable_callback)(std::uint32_t enable, Subscriber subscriber, int domain, std::uint32_t id) = nullptr;
  Result (*get_device_id)(void* context, std::uint32_t* device) = nullptr;

  // The release, as told from its exports.
  bool has_long_params = false;  // 13.2 and newer
  bool can_be_shared = false;    // 13.3 and newer, among clients that use subscribe_v2 and allow sharing
};

}  // namespace memreel::cuda::cupti

namespace memreel::cuda {

/// One per process, never destroyed: CUPTI may call it on any thread. begin() and end() may be called repeatedly, by
/// one thread at a time.
class CuptiBackend {
 public:
  explicit CuptiBackend(Watch& watch) : watch_(&watch) {}
  CuptiBackend(const CuptiBackend&) = delete;
  CuptiBackend& operator=(const CuptiBackend&) = delete;

  /// Finds CUPTI (`library`: this file only), subscribes and enables callbacks. The error lists what was tried, or
  /// names the current subscriber, as far as CUPTI reports it.
  Result<void> begin(const std::string& library);

  /// Unsubscribes. Callbacks may still be running.
  void end();

  /// Since begin(): the CUPTI file in use, and whether another subscriber holds it.
  const std::string& library() const { return library_; }
  bool taken() const { return taken_; }

  /// Since begin(): whether others can subscribe too; then, the previous subscriber. Empty: none, as far as CUPTI
  /// reports.
  bool is_shared() const { return is_shared_; }
  const std::string& sharer() const { return holder_; }

 private:
  static void called(void* self, int domain, std::uint32_t id, const void* data);
  void driver_call(std::uint32_t id, const cupti::CallbackData& data);
  void resource(std::uint32_t id, const cupti::ResourceData& data);
  KnownObjects::Known known(void* context);

  bool load(const std::string& file, std::string& why);
  bool subscribe(std::string& why);
  enum class Manner : std::uint8_t { old, alone, shared };  // cuptiSubscribe; cuptiSubscribe_v2, exclusive or shared
  cupti::Result subscribe_as(Manner manner);
  bool enable(std::string& why);

  Watch* watch_;
  cupti::Functions cupti_;
  cupti::Subscriber subscriber_ = nullptr;
  std::string library_;
  std::string holder_;  // as reported by the last subscription
  bool taken_ = false, is_shared_ = false;
};

}  // namespace memreel::cuda

namespace memreel::cuda {

// Where libcupti may be, in the order to try.

// A function in a library opened at run time.

/// Sets `function` to what `library` itself exports as `name`, or to null. Our symbols that precede it are skipped.
template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(RealDriver::dlsym(library, name));
}

/// What is known about the process and the machine.
struct Surroundings {
  std::vector<std::string> mapped;  // files of the loaded libraries, in any order
  std::optional<int> driver_major;  // major CUDA version that the driver supports
  std::filesystem::path executable;
  // Environment variables; empty when not set.
  std::string cuda_home, conda_prefix;
  std::string virtual_env, python_path;
  std::string python_user_base;  // else ~/.local
};

/// The CUDA version that the loaded driver supports: 13020 for 13.2. None: no driver is loaded.
std::optional<int> driver_version();

/// Of this process.
Surroundings surroundings();

/// Existing files, or names for the loader's own search. If a copy is already loaded, it is the only candidate, since
/// two in one process conflict. Otherwise those of the CUDA version of the process's libcudart come first, and never
/// one newer than the driver, which could not work.
std::vector<std::string> cupti_candidates(const Surroundings& surroundings);

}  // namespace memreel::cuda
