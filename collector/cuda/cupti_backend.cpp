// SPDX-License-Identifier: Apache-2.0
#include "collector/cuda/cupti_backend.h"

#include <dlfcn.h>

#include <array>
#include <span>
#include <vector>

#include "collector/cuda/decoder.h"
#include "collector/cuda/find_cupti.h"
#include "collector/cuda/real_driver.h"

namespace memreel::cuda {
namespace {

/// The call that this thread is in creates a graph node.
[[gnu::tls_model("initial-exec")]] constinit thread_local bool became_node = false;  // NOLINT

/// The entries of calls that this thread is in, for their exits.
[[gnu::tls_model("initial-exec")]] constinit thread_local EnteredCalls entered_calls;  // NOLINT

std::string text_of(cupti::Result result) {
  const char* const name = result == cupti::not_initialized ? "CUPTI_ERROR_NOT_INITIALIZED "
                           : result == cupti::not_supported ? "CUPTI_ERROR_NOT_SUPPORTED "
                                                            : "error ";
  return name + ("(" + std::to_string(result) + ")");
}

}  // namespace

Result<void> CuptiBackend::begin(const std::string& library) {
  taken_ = is_shared_ = false;
  RealDriver::get();  // looks its functions up now, not in a callback
  std::string tried;
  const std::vector<std::string> candidates =
      library.empty() ? cupti_candidates(surroundings()) : std::vector<std::string>{library};
  for (const std::string& file : candidates) {
    std::string why;
    if (load(file, why) && subscribe(why) && enable(why)) {
      library_ = file;
      return {};
    }
    if (taken_)
      return Error{.what = why, .where = "CUPTI", .remedy = "stop the other tool, or use --backend interpose"};
    tried += (tried.empty() ? "" : "; ") + why;
  }
  return Error{
      .what = tried.empty() ? std::string("libcupti not found") : "unusable: " + tried,
      .where = "CUPTI",
      .remedy = "install it (pip install memreel[cu13], or [cu12] for CUDA 12), or set MEMREEL_LIBCUPTI to its path"};
}

bool CuptiBackend::load(const std::string& file, std::string& why) {
  void* const library = ::dlopen(file.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const error = ::dlerror();  // NOLINT(concurrency-mt-unsafe): glibc's is the thread's own
    why = error != nullptr ? error : file;
    return false;
  }
  find(library, "cuptiSubscribe", cupti_.subscribe);
  find(library, "cuptiSubscribe_v2", cupti_.subscribe_v2);
  find(library, "cuptiUnsubscribe", cupti_.unsubscribe);
  find(library, "cuptiEnableCallback", cupti_.enable_callback);
  find(library, "cuptiGetDeviceId", cupti_.get_device_id);
  cupti_.has_long_params = RealDriver::dlsym(library, "cuptiActivityGetAttribute_v2") != nullptr;
  cupti_.can_be_shared =
      cupti_.has_long_params && RealDriver::dlsym(library, "cuptiIsTracingSessionRunning") != nullptr;
  if (cupti_.subscribe == nullptr || cupti_.unsubscribe == nullptr || cupti_.enable_callback == nullptr) {
    why = file + " is missing functions";
    return false;
  }
  // In 13.2 the function that reports an unusable CUPTI recurses without end (cupti_backend.h).
  const bool is_13_2 = cupti_.has_long_params && !cupti_.can_be_shared;
  if (is_13_2 && driver_version().value_or(0) < 13020) {
    why = file + " is from CUDA 13.2, which needs a driver for CUDA 13.2 or newer";
    return false;
  }
  return true;
}

/// Shared if possible: a driver that is too old for sharing refuses as if another subscriber held CUPTI. Then with the
/// old call, without sharing, since from 13.3 on other tools' old-style calls fail next to a new-style subscriber. The
/// last attempt reports the current subscriber.
bool CuptiBackend::subscribe(std::string& why) {
  constexpr std::array sharing{Manner::shared, Manner::old, Manner::alone};
  constexpr std::array naming{Manner::alone};
  constexpr std::array oldest{Manner::old};
  const std::span<const Manner> manners = cupti_.can_be_shared             ? std::span<const Manner>(sharing)
                                          : cupti_.subscribe_v2 != nullptr ? std::span<const Manner>(naming)
                                                                           : std::span<const Manner>(oldest);
  cupti::Result result = 0;
  for (const Manner manner : manners) {
    result = subscribe_as(manner);
    if (result != 0) continue;
    is_shared_ = manner == Manner::shared;
    return true;
  }
  taken_ = result == cupti::multiple_subscribers;
  if (taken_)
    why = "is in use by " + (holder_.empty() ? "another tool, perhaps a profiler or debugger" : holder_);
  else
    why = "cuptiSubscribe failed: " + text_of(result);
  return false;
}

cupti::Result CuptiBackend::subscribe_as(Manner manner) {
  holder_.clear();
  if (manner == Manner::old) return cupti_.subscribe(&subscriber_, called, this);
  std::array<char, 64> holder{};
  cupti::SubscriberParams params{.size = cupti_.has_long_params ? sizeof params : cupti::params_size_13_0,
                                 .name = "memreel",
                                 .old_name = holder.data(),
                                 .old_name_size = holder.size(),
                                 .allow_multiple = static_cast<std::uint8_t>(manner == Manner::shared ? 1 : 0),
                                 .reserved = {}};
  const cupti::Result result = cupti_.subscribe_v2(&subscriber_, called, this, &params);
  holder.back() = '\0';
  holder_ = holder.data();
  return result;
}

bool CuptiBackend::enable(std::string& why) {
  // An older CUPTI refuses unknown calls. If the driver is newer, they are not seen.
  bool any = false;
  for (const Call call : watched_calls)
    any |= cupti_.enable_callback(1, subscriber_, cupti::domain_driver, static_cast<std::uint32_t>(call)) == 0;
  for (const std::uint32_t id :
       {cupti::context_created, cupti::context_destroy_starting, cupti::graph_node_create_starting})
    cupti_.enable_callback(1, subscriber_, cupti::domain_resource, id);
  if (any) return true;
  why = "can't enable any callback";
  cupti_.unsubscribe(subscriber_);
  return false;
}

void CuptiBackend::end() {
  for (const Call call : watched_calls)
    cupti_.enable_callback(0, subscriber_, cupti::domain_driver, static_cast<std::uint32_t>(call));
  cupti_.unsubscribe(subscriber_);
}

void CuptiBackend::called(void* self, int domain, std::uint32_t id, const void* data) {
  auto& backend = *static_cast<CuptiBackend*>(self);
  if (domain == cupti::domain_driver)
    backend.driver_call(id, *static_cast<const cupti::CallbackData*>(data));
  else if (domain == cupti::domain_resource)
    backend.resource(id, *static_cast<const cupti::ResourceData*>(data));
}

void CuptiBackend::driver_call(std::uint32_t id, const cupti::CallbackData& data) {
  CallSite site{.call = static_cast<Call>(id), .parameters = data.parameters, .context = known(data.context)};
  if (data.site == 0) {
    became_node = false;
    entered_calls.put(data.correlation, watch_->enter(site));
    return;
  }
  const Status status = data.result != nullptr ? *static_cast<const Status*>(data.result) : success;
  site.captured = became_node;
  became_node = false;
  watch_->exit(site, status, entered_calls.take(data.correlation));
}

void CuptiBackend::resource(std::uint32_t id, const cupti::ResourceData& data) {
  if (id == cupti::graph_node_create_starting) {
    const auto* const graph = static_cast<const cupti::GraphData*>(data.descriptor);
    became_node |= graph != nullptr && (graph->node_type == mem_alloc_node || graph->node_type == mem_free_node);
  } else if (id == cupti::context_created || id == cupti::context_destroy_starting) {
    // A context created at the address of a known one: the end of that one was not seen.
    watch_->context_gone(data.context);
  }
}

KnownObjects::Known CuptiBackend::known(void* context) {
  if (const auto found = watch_->find_context(context)) return *found;
  // A context that existed before us.
  std::uint32_t device = 0;
  if (context == nullptr || cupti_.get_device_id == nullptr || cupti_.get_device_id(context, &device) != 0) return {};
  return watch_->add_context(context, static_cast<std::int16_t>(device));
}

}  // namespace memreel::cuda
