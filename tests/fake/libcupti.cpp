// The fake libcupti.so.13: subscriptions and callbacks of the fake driver. One subscriber at a time, as in CUPTI
// until 13.2.
//
//   FAKE_CUPTI_TAKEN    somebody of this name holds CUPTI: subscribing fails with 39
//   FAKE_CUPTI_VERSION  what cuptiGetVersion answers [130001]
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/fake/abi.h"

namespace fake::cupti {

struct Subscriber final : Listener {
  Callback callback = nullptr;
  void* user = nullptr;
  std::string name;
  // Numbers of calls run to a few thousand in every known version.
  std::array<std::atomic<bool>, 4096> calls{};
  std::array<std::atomic<bool>, 64> resources{};

  std::atomic<bool>* switch_of(unsigned domain, unsigned id) {
    if (domain == driver_domain && id < calls.size()) return &calls[id];
    if (domain == resource_domain && id < resources.size()) return &resources[id];
    return nullptr;
  }
  bool wants(unsigned domain, unsigned id) const override {
    return domain == driver_domain ? calls[id].load(std::memory_order_relaxed)
                                   : resources[id].load(std::memory_order_relaxed);
  }
  void notify(unsigned domain, unsigned id, const void* data) override { callback(user, domain, id, data); }
};

namespace {

Subscriber subscriber;  // NOLINT: CUPTI has one
std::atomic<bool> subscribed{false};

std::atomic<Listener*>* listener() {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  return library == nullptr ? nullptr : static_cast<std::atomic<Listener*>*>(dlsym(library, "fake_cuda_listener"));
}

const char* holder() {
  const char* named = std::getenv("FAKE_CUPTI_TAKEN");  // NOLINT(concurrency-mt-unsafe)
  if (named != nullptr) return named;
  return subscribed ? subscriber.name.c_str() : nullptr;
}

Result subscribe(Subscriber** handle, Callback callback, void* user, const char* name) {
  std::atomic<Listener*>* const place = listener();
  if (place == nullptr) return not_initialized;
  if (handle == nullptr || callback == nullptr) return invalid_parameter;
  if (holder() != nullptr || subscribed.exchange(true)) return taken;
  subscriber.callback = callback;
  subscriber.user = user;
  subscriber.name = name != nullptr ? name : "";
  *handle = &subscriber;
  place->store(&subscriber, std::memory_order_release);
  return ok;
}

}  // namespace
}  // namespace fake::cupti

using namespace fake::cupti;

extern "C" {

Result cuptiGetVersion(std::uint32_t* version) {
  const char* text = std::getenv("FAKE_CUPTI_VERSION");  // NOLINT(concurrency-mt-unsafe)
  *version = text != nullptr ? static_cast<std::uint32_t>(std::strtoul(text, nullptr, 10)) : 130001;
  return ok;
}

Result cuptiSubscribe(Subscriber** handle, Callback callback, void* user) {
  return subscribe(handle, callback, user, nullptr);
}

Result cuptiSubscribe_v2(Subscriber** handle, Callback callback, void* user, SubscriberParameters* parameters) {
  if (parameters != nullptr && parameters->struct_size < sizeof(SubscriberParameters)) return invalid_parameter;
  const char* const held_by = holder();
  if (held_by != nullptr && parameters != nullptr && parameters->holder != nullptr) {
    if (parameters->holder_size < 64) return invalid_parameter;
    std::strncpy(parameters->holder, held_by, parameters->holder_size);
  }
  return subscribe(handle, callback, user, parameters != nullptr ? parameters->name : nullptr);
}

Result cuptiUnsubscribe(Subscriber* handle) {
  if (handle != &subscriber || !subscribed) return invalid_parameter;
  listener()->store(nullptr, std::memory_order_release);
  for (auto& enabled : subscriber.calls) enabled = false;
  for (auto& enabled : subscriber.resources) enabled = false;
  subscribed = false;
  return ok;
}

Result cuptiEnableCallback(std::uint32_t enable, Subscriber* handle, unsigned domain, unsigned id) {
  if (handle != &subscriber || !subscribed) return invalid_parameter;
  std::atomic<bool>* const place = handle->switch_of(domain, id);
  // 13.0 knows driver calls up to about 820.
  if (place == nullptr || (domain == driver_domain && id > 830)) return invalid_parameter;
  *place = enable != 0;
  return ok;
}

Result cuptiEnableDomain(std::uint32_t enable, Subscriber* handle, unsigned domain) {
  if (handle != &subscriber || !subscribed) return invalid_parameter;
  for (unsigned id = 0; std::atomic<bool>* const place = handle->switch_of(domain, id); ++id) *place = enable != 0;
  return ok;
}

Result cuptiGetCallbackState(std::uint32_t* enabled, Subscriber* handle, unsigned domain, unsigned id) {
  if (handle != &subscriber) return invalid_parameter;
  const std::atomic<bool>* const place = handle->switch_of(domain, id);
  if (place == nullptr) return invalid_parameter;
  return *enabled = *place ? 1 : 0, ok;
}

Result cuptiGetResultString(Result result, const char** text) {
  switch (result) {
    case ok:
      *text = "CUPTI_SUCCESS";
      break;
    case invalid_parameter:
      *text = "CUPTI_ERROR_INVALID_PARAMETER";
      break;
    case not_initialized:
      *text = "CUPTI_ERROR_NOT_INITIALIZED";
      break;
    case taken:
      *text = "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED";
      break;
    default:
      *text = "CUPTI_ERROR_UNKNOWN";
      break;
  }
  return ok;
}

Result cuptiGetLastError() { return ok; }
Result cuptiFinalize() { return subscribed ? cuptiUnsubscribe(&subscriber) : ok; }
}
