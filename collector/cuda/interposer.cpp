// SPDX-License-Identifier: Apache-2.0
#include "collector/cuda/interposer.h"

#include <dlfcn.h>

#include <array>
#include <tuple>

#include "collector/cuda/cupti_backend.h"

using namespace memreel::cuda;              // NOLINT(google-build-using-namespace): what follows are C functions
using namespace memreel::cuda::interposer;  // NOLINT(google-build-using-namespace)

// The driver's symbols. What each does to memory is up to the decoder; here they are only names.
// NOLINTBEGIN(readability-identifier-naming)
#pragma GCC visibility push(default)
extern "C" {

#define CALL(symbol, number, since, parameters, count) \
  Status symbol(TAKES_##count(symbol)) { return pass<Call::symbol>(#symbol, PASSES_##count); }
#define ARGUMENT(symbol, index) std::tuple_element_t<index, Arguments<Call::symbol>>
#define TAKES_1(symbol) ARGUMENT(symbol, 0) a
#define TAKES_2(symbol) TAKES_1(symbol), ARGUMENT(symbol, 1) b
#define TAKES_3(symbol) TAKES_2(symbol), ARGUMENT(symbol, 2) c
#define TAKES_4(symbol) TAKES_3(symbol), ARGUMENT(symbol, 3) d
#define TAKES_5(symbol) TAKES_4(symbol), ARGUMENT(symbol, 4) e
#define TAKES_6(symbol) TAKES_5(symbol), ARGUMENT(symbol, 5) f
#define PASSES_1 a
#define PASSES_2 a, b
#define PASSES_3 a, b, c
#define PASSES_4 a, b, c, d
#define PASSES_5 a, b, c, d, e
#define PASSES_6 a, b, c, d, e, f
#include "collector/cuda/calls.inc"

// Declared before they are defined, for the table of all symbols.
Status cuInit(unsigned flags);
Status cuGetProcAddress(const char* symbol, void** function, int version, std::uint64_t flags);
Status cuGetProcAddress_v2(const char* symbol, void** function, int version, std::uint64_t flags, int* found);
cupti::Result cuptiSubscribe(cupti::Subscriber* subscriber, cupti::Callback callback, void* user);
cupti::Result cuptiSubscribe_v2(cupti::Subscriber* subscriber, cupti::Callback callback, void* user,
                                cupti::SubscriberParams* params);
}

namespace memreel::cuda::interposer {
namespace {

/// A driver symbol that we also define.
struct Symbol {
  std::string_view name;
  int since;  // as in calls.inc
  void* ours;
  std::atomic<void*>* real;  // null: not called through pass()
};

/// All of our symbols.
const auto& symbols() {
  static const std::array all{
#define CALL(symbol, number, since, parameters, count) \
  Symbol{#symbol, since, reinterpret_cast<void*>(&(symbol)), &real_of<Call::symbol>},
#include "collector/cuda/calls.inc"
      Symbol{"cuptiSubscribe", 0, reinterpret_cast<void*>(&cuptiSubscribe), nullptr},
      Symbol{"cuptiSubscribe_v2", 0, reinterpret_cast<void*>(&cuptiSubscribe_v2), nullptr},
      Symbol{"cuInit", 2000, reinterpret_cast<void*>(&cuInit), nullptr},
      Symbol{"cuGetProcAddress", 11030, reinterpret_cast<void*>(&cuGetProcAddress), nullptr},
      Symbol{"cuGetProcAddress_v2", 12000, reinterpret_cast<void*>(&cuGetProcAddress_v2), nullptr},
  };
  return all;
}

/// What cuGetProcAddress found for the name without its suffix, or our function in its place.
void* ours_for(std::string_view base, int version, bool own_default_stream, void* found) {
  const Symbol* best = nullptr;
  for (const Symbol& symbol : symbols()) {
    std::string_view rest = symbol.name;
    if (!rest.starts_with(base)) continue;
    rest.remove_prefix(base.size());
    const bool ptsz = rest.ends_with("_ptsz");
    if (ptsz) rest.remove_suffix(5);
    const bool is_version = rest.empty() || (rest.size() == 3 && rest.starts_with("_v"));
    if (!is_version || symbol.since > version || (ptsz && !own_default_stream)) continue;
    if (best == nullptr || symbol.since > best->since || ptsz) best = &symbol;
  }
  if (best == nullptr) return found;
  // A driver, or a shim in front of it, that looks up its own functions by name finds ours: calling on from there would
  // never end.
  if (best->real != nullptr && found != best->ours) {
    void* expected = nullptr;
    best->real->compare_exchange_strong(expected, found);
  }
  return best->ours;
}

constexpr std::uint64_t per_thread_default_stream = 2;  // CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM

void replace(const char* symbol, void** function, int version, std::uint64_t flags) {
  if (symbol == nullptr || function == nullptr || *function == nullptr || !preloaded()) return;
  *function = ours_for(symbol, version, (flags & per_thread_default_stream) != 0, *function);
}

}  // namespace

bool preloaded() {
  // Looked up as the program would: RTLD_DEFAULT would always find this library's own symbol.
  static const bool first =
      RealDriver::dlsym(::dlopen(nullptr, RTLD_LAZY), "cuMemAlloc_v2") == reinterpret_cast<void*>(&cuMemAlloc_v2);
  return first;
}

void begin(Watch& watching) { watch.store(&watching, std::memory_order_release); }
void end() { watch.store(nullptr, std::memory_order_release); }

/// Ours if `handle` has a symbol with this name; null if it is not ours, or there is none.
extern "C" [[gnu::visibility("hidden")]] void* memreel_our_symbol(void* handle, const char* name) {
  if (handle == RTLD_NEXT || name == nullptr || name[0] != 'c' || name[1] != 'u') return nullptr;
  for (const Symbol& symbol : symbols()) {
    if (symbol.name != name) continue;
    void* const real = RealDriver::dlsym(handle, name);
    if (real == nullptr || real == symbol.ours) return real;
    void* expected = nullptr;
    if (symbol.real != nullptr) symbol.real->compare_exchange_strong(expected, real);
    return symbol.ours;
  }
  return nullptr;
}

}  // namespace memreel::cuda::interposer

extern "C" {

Status cuInit(unsigned flags) {
  const auto real = reinterpret_cast<Status (*)(unsigned)>(RealDriver::find("cuInit"));
  if (real == nullptr) return not_found;
  const Status status = real(flags);
  if (status == success && preloaded()) driver_initialized();
  return status;
}

Status cuGetProcAddress(const char* symbol, void** function, int version, std::uint64_t flags) {
  using Function = Status (*)(const char*, void**, int, std::uint64_t);
  const auto real = reinterpret_cast<Function>(RealDriver::find("cuGetProcAddress"));
  if (real == nullptr) return not_found;
  const Status status = real(symbol, function, version, flags);
  if (status == success) replace(symbol, function, version, flags);
  return status;
}

Status cuGetProcAddress_v2(const char* symbol, void** function, int version, std::uint64_t flags, int* found) {
  using Function = Status (*)(const char*, void**, int, std::uint64_t, int*);
  const auto real = reinterpret_cast<Function>(RealDriver::find("cuGetProcAddress_v2"));
  if (real == nullptr) return not_found;
  const Status status = real(symbol, function, version, flags, found);
  if (status == success) replace(symbol, function, version, flags);
  return status;
}
}
#pragma GCC visibility pop
// NOLINTEND(readability-identifier-naming)
