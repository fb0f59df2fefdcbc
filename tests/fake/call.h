// SPDX-License-Identifier: Apache-2.0
// One call into the fake driver: listeners are notified before and after it, and tests can delay it or make it fail.
#pragma once

#include <atomic>

#include "tests/fake/abi.h"

namespace fake {

extern "C" std::atomic<Listener*> fake_cuda_listener;  // NOLINT(readability-identifier-naming): found by dlsym

struct Function {
  unsigned id;       // CUpti_driver_api_trace_cbid
  const char* name;  // symbol name
};

namespace functions {  // NOLINTBEGIN(readability-identifier-naming): named for their symbols
#define CALL(symbol, number, since, parameters, count) inline constexpr Function symbol{number, #symbol};
#include "collector/cuda/calls.inc"
#define CALL(symbol, number) inline constexpr Function symbol{number, #symbol};
#include "tests/fake/calls.inc"
}  // namespace functions

/// The status that FAKE_CUDA_FAIL, FAKE_CUDA_DELAY_US and the process state impose on this call; `success` lets it run.
Status before_call(const Function& function);

Context* current_context();
std::uint32_t number_of(const Context* context);
std::uint32_t next_correlation();

/// Runs `body` as the call to `function` with these arguments.
template <class Arguments, class Body>
Status call(const Function& function, Arguments arguments, Body&& body) {
  Listener* const listener = fake_cuda_listener.load(std::memory_order_acquire);
  if (listener == nullptr || !listener->wants(cupti::driver_domain, function.id)) {
    const Status refusal = before_call(function);
    return refusal != success ? refusal : body();
  }
  Status result = success;
  std::uint64_t slot = 0;
  cupti::CallbackData data{.site = cupti::enter,
                           .function = function.name,
                           .arguments = &arguments,
                           .return_value = &result,
                           .context = current_context(),
                           .context_number = number_of(current_context()),
                           .correlation_data = &slot,
                           .correlation = next_correlation()};
  listener->notify(cupti::driver_domain, function.id, &data);
  result = before_call(function);
  if (result == success) result = body();
  data.site = cupti::exit;
  data.context = current_context();
  data.context_number = number_of(current_context());
  listener->notify(cupti::driver_domain, function.id, &data);
  return result;
}

/// Notifies listeners that a resource was created or destroyed.
inline void announce(unsigned id, Context* context, void* descriptor = nullptr) {
  Listener* const listener = fake_cuda_listener.load(std::memory_order_acquire);
  if (listener == nullptr || !listener->wants(cupti::resource_domain, id)) return;
  const cupti::ResourceData data{.context = context, .descriptor = descriptor};
  listener->notify(cupti::resource_domain, id, &data);
}

}  // namespace fake
