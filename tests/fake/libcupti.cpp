// SPDX-License-Identifier: Apache-2.0
// The fake libcupti: subscriptions to and callbacks from the fake driver, as in releases 11.8 to 13.5. FAKE_CUPTI_API
// selects the release at build time: it is what cuptiGetVersion returns, and the library exports and does only what
// that release does.
//
//   before 13.0   one subscriber, by cuptiSubscribe
//   13.0          ... or by cuptiSubscribe_v2, whose parameters have exactly 32 bytes
//   13.2          40 bytes, but sharing is refused
//   13.3          several subscribers by cuptiSubscribe_v2, if the first and all others allow it and the driver is
//                 CUDA 13.3 or newer (FAKE_CUDA_VERSION); on an older driver, as if CUPTI were already taken
//
//   FAKE_CUPTI_TAKEN    a subscriber of this name holds CUPTI exclusively: subscribing fails with 39
//   FAKE_CUPTI_SHARED   a subscriber of this name holds CUPTI and shares it
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <type_traits>

#include "tests/fake/abi.h"

#ifndef FAKE_CUPTI_API
#define FAKE_CUPTI_API 130001
#endif

namespace fake::cupti {

struct Subscriber {
  std::atomic<bool> is_there{false};
  Callback callback = nullptr;
  void* user = nullptr;
  std::string name;
  // Callback ids stay below a few thousand in every known version.
  std::array<std::atomic<bool>, 4096> calls{};
  std::array<std::atomic<bool>, 64> resources{};

  std::atomic<bool>* switch_of(unsigned domain, unsigned id) {
    if (domain == driver_domain && id < calls.size()) return &calls[id];
    if (domain == resource_domain && id < resources.size()) return &resources[id];
    return nullptr;
  }
  bool wants(unsigned domain, unsigned id) const {
    return domain == driver_domain ? calls[id].load(std::memory_order_acquire)
                                   : resources[id].load(std::memory_order_acquire);
  }
};

namespace {

constexpr unsigned api = FAKE_CUPTI_API;
constexpr bool has_v2 = api >= 130000, has_long_parameters = api >= 130200, has_sharing = api >= 130300;
/// Each release knows the driver calls below this number (CUPTI_DRIVER_TRACE_CBID_SIZE).
constexpr unsigned known_calls = api >= 130500   ? 877
                                 : api >= 130200 ? 846
                                 : api >= 130000 ? 807
                                 : api >= 28     ? 784
                                                 : 677;

std::array<Subscriber, 4> subscribers;  // NOLINT: as many as ever share it
std::mutex subscribing;                 // guards that and what follows
bool shared = false;                    // as the first subscriber requested

/// Notifies all subscribers.
struct Everybody final : Listener {
  bool wants(unsigned domain, unsigned id) const override {
    return std::any_of(subscribers.begin(), subscribers.end(),
                       [&](const Subscriber& subscriber) { return subscriber.wants(domain, id); });
  }
  void notify(unsigned domain, unsigned id, const void* data) override {
    for (const Subscriber& subscriber : subscribers)
      if (subscriber.wants(domain, id)) subscriber.callback(subscriber.user, domain, id, data);
  }
};
Everybody everybody;  // NOLINT
static_assert(std::is_trivially_destructible_v<Everybody>);

std::atomic<Listener*>* listener() {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  return library == nullptr ? nullptr : static_cast<std::atomic<Listener*>*>(dlsym(library, "fake_cuda_listener"));
}

bool driver_shares() {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  using GetVersion = Status (*)(int*);
  const auto get_version =
      library != nullptr ? reinterpret_cast<GetVersion>(dlsym(library, "cuDriverGetVersion")) : nullptr;
  int version = 0;
  return get_version != nullptr && get_version(&version) == success && version >= 13030;
}

const char* variable(const char* name) { return std::getenv(name); }  // NOLINT(concurrency-mt-unsafe)

/// The first holder; null: CUPTI is free.
const char* first_holder() {
  for (const char* const name : {variable("FAKE_CUPTI_TAKEN"), variable("FAKE_CUPTI_SHARED")})
    if (name != nullptr) return name;
  for (const Subscriber& subscriber : subscribers)
    if (subscriber.is_there) return subscriber.name.c_str();
  return nullptr;
}

/// `wants_sharing`: always false for cuptiSubscribe.
Result subscribe(Subscriber** handle, Callback callback, void* user, const char* name, bool wants_sharing) {
  std::atomic<Listener*>* const place = listener();
  if (place == nullptr) return not_initialized;
  if (handle == nullptr || callback == nullptr) return invalid_parameter;
  const std::lock_guard lock(subscribing);
  if (wants_sharing && !(has_sharing && driver_shares())) return taken;
  const bool is_held = first_holder() != nullptr;
  const bool is_shared =
      variable("FAKE_CUPTI_TAKEN") == nullptr && (shared || variable("FAKE_CUPTI_SHARED") != nullptr);
  if (is_held && !(is_shared && wants_sharing)) return taken;
  const auto free = std::find_if(subscribers.begin(), subscribers.end(), [](const auto& one) { return !one.is_there; });
  if (free == subscribers.end()) return taken;
  shared = wants_sharing;
  free->callback = callback;
  free->user = user;
  free->name = name != nullptr ? "CUPTI for " + std::string(name) : "";
  free->is_there = true;
  *handle = &*free;
  place->store(&everybody, std::memory_order_release);
  return ok;
}

bool is_valid(const Subscriber* handle) {
  return std::any_of(subscribers.begin(), subscribers.end(),
                     [&](const Subscriber& one) { return &one == handle && one.is_there; });
}

}  // namespace
}  // namespace fake::cupti

using namespace fake::cupti;

extern "C" {

Result cuptiGetVersion(std::uint32_t* version) { return *version = api, ok; }

Result cuptiSubscribe(Subscriber** handle, Callback callback, void* user) {
  return subscribe(handle, callback, user, nullptr, false);
}

#if FAKE_CUPTI_API >= 130000
Result cuptiSubscribe_v2(Subscriber** handle, Callback callback, void* user, SubscriberParameters* parameters) {
  if (parameters == nullptr) return subscribe(handle, callback, user, nullptr, false);
  const std::size_t size = parameters->struct_size;
  if (size != SubscriberParameters::size_13_0 && !(has_long_parameters && size == sizeof(SubscriberParameters)))
    return invalid_parameter;
  const char* const held_by = first_holder();
  if (held_by != nullptr && parameters->holder != nullptr) {
    if (parameters->holder_size < 64) return invalid_parameter;
    std::strncpy(parameters->holder, held_by, parameters->holder_size);
  }
  const bool wants_sharing = size == sizeof(SubscriberParameters) && parameters->allow_multiple != 0;
  return subscribe(handle, callback, user, parameters->name, wants_sharing);
}
#endif

#if FAKE_CUPTI_API >= 130200
Result cuptiActivityGetAttribute_v2() { return not_initialized; }
#endif
#if FAKE_CUPTI_API >= 130300
Result cuptiIsTracingSessionRunning(std::uint8_t* running) { return *running = first_holder() != nullptr ? 1 : 0, ok; }
#endif

Result cuptiUnsubscribe(Subscriber* handle) {
  const std::lock_guard lock(subscribing);
  if (!is_valid(handle)) return invalid_parameter;
  for (auto& enabled : handle->calls) enabled = false;
  for (auto& enabled : handle->resources) enabled = false;
  handle->is_there = false;
  if (first_holder() == nullptr) listener()->store(nullptr, std::memory_order_release);
  return ok;
}

Result cuptiEnableCallback(std::uint32_t enable, Subscriber* handle, unsigned domain, unsigned id) {
  if (!is_valid(handle)) return invalid_parameter;
  std::atomic<bool>* const place = handle->switch_of(domain, id);
  if (place == nullptr || (domain == driver_domain && id >= known_calls)) return invalid_parameter;
  *place = enable != 0;
  return ok;
}

Result cuptiEnableDomain(std::uint32_t enable, Subscriber* handle, unsigned domain) {
  if (!is_valid(handle)) return invalid_parameter;
  for (unsigned id = 0; std::atomic<bool>* const place = handle->switch_of(domain, id); ++id) *place = enable != 0;
  return ok;
}

Result cuptiGetCallbackState(std::uint32_t* enabled, Subscriber* handle, unsigned domain, unsigned id) {
  if (!is_valid(handle)) return invalid_parameter;
  const std::atomic<bool>* const place = handle->switch_of(domain, id);
  if (place == nullptr) return invalid_parameter;
  return *enabled = *place ? 1 : 0, ok;
}

Result cuptiGetLastError() { return ok; }
Result cuptiFinalize() {
  for (Subscriber& subscriber : subscribers)
    if (subscriber.is_there) cuptiUnsubscribe(&subscriber);
  return ok;
}
}
