#include "collector/cuda/cupti_backend.h"

#include <dlfcn.h>

#include <array>
#include <vector>

#include "collector/cuda/find_cupti.h"
#include "collector/cuda/library_symbol.h"

namespace memreel::cuda {
namespace {

/// The call that this thread is in makes a node of a graph.
[[gnu::tls_model("initial-exec")]] constinit thread_local bool became_node = false;  // NOLINT

}  // namespace

Result<void> CuptiBackend::begin(const std::string& library) {
  taken_ = false;
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
  find(library, "cuptiGetVersion", cupti_.get_version);
  find(library, "cuptiSubscribe", cupti_.subscribe);
  find(library, "cuptiSubscribe_v2", cupti_.subscribe_v2);
  find(library, "cuptiUnsubscribe", cupti_.unsubscribe);
  find(library, "cuptiEnableCallback", cupti_.enable_callback);
  find(library, "cuptiGetDeviceId", cupti_.get_device_id);
  find(library, "cuptiGetResultString", cupti_.get_result_string);
  if (cupti_.subscribe != nullptr && cupti_.unsubscribe != nullptr && cupti_.enable_callback != nullptr) return true;
  why = file + " is missing functions";
  return false;
}

bool CuptiBackend::subscribe(std::string& why) {
  std::array<char, 64> holder{};
  cupti::SubscriberParams params{
      .size = sizeof params, .name = "memreel", .old_name = holder.data(), .old_name_size = holder.size()};
  const cupti::Result result = cupti_.subscribe_v2 != nullptr ? cupti_.subscribe_v2(&subscriber_, called, this, &params)
                                                              : cupti_.subscribe(&subscriber_, called, this);
  if (result == 0) return true;
  taken_ = result == cupti::multiple_subscribers;
  holder.back() = '\0';
  if (taken_)
    why = std::string("is in use by ") +
          (holder[0] != '\0' ? std::string(holder.data()) : "another tool, perhaps a profiler or debugger");
  else
    why = "cuptiSubscribe failed: " + text_of(result);
  return false;
}

bool CuptiBackend::enable(std::string& why) {
  // Calls that an older CUPTI does not know are refused, and can't happen either.
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

std::string CuptiBackend::text_of(cupti::Result result) const {
  const char* text = nullptr;
  if (cupti_.get_result_string != nullptr) cupti_.get_result_string(result, &text);
  return (text != nullptr ? std::string(text) + " " : "") + "(" + std::to_string(result) + ")";
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
    *data.slot = watch_->enter(site);
    return;
  }
  const Status status = data.result != nullptr ? *static_cast<const Status*>(data.result) : success;
  site.captured = became_node;
  became_node = false;
  watch_->exit(site, status, *data.slot);
}

void CuptiBackend::resource(std::uint32_t id, const cupti::ResourceData& data) {
  if (id == cupti::graph_node_create_starting) {
    const auto* const graph = static_cast<const cupti::GraphData*>(data.descriptor);
    became_node |= graph != nullptr && (graph->node_type == mem_alloc_node || graph->node_type == mem_free_node);
  } else if (id == cupti::context_created || id == cupti::context_destroy_starting) {
    // A context that is created where one is known to be: the end of that one was not seen.
    watch_->context_gone(data.context);
  }
}

KnownObjects::Known CuptiBackend::known(void* context) {
  const KnownObjects::Known found = watch_->contexts().find(context);
  if (found.number != 0 || context == nullptr || cupti_.get_device_id == nullptr) return found;
  // One that was there before us.
  std::uint32_t device = 0;
  if (cupti_.get_device_id(context, &device) != 0) return found;
  return watch_->contexts().add(context, static_cast<std::int16_t>(device));
}

}  // namespace memreel::cuda
