#include "collector/python/code_deaths.h"

#include <atomic>
#include <cstddef>
#include <cstring>

#include "collector/python/memory.h"

namespace memreel::python {
namespace {

using Free = void (*)(void* code);

// PyTypeObject of 64-bit builds, since 3.0: PyObject_VAR_HEAD, tp_name, tp_basicsize, tp_itemsize, tp_dealloc.
constexpr std::size_t name_offset = 24, free_offset = 48;

// What Python calls has no argument for it.
std::atomic<std::uint32_t> deaths = 0;
std::atomic<bool> watched = false;
std::atomic<Free> pythons = nullptr;              // what stood there the first time
std::atomic<std::atomic<Free>*> place = nullptr;  // where ours stands now

void count_and_free(void* code) {
  deaths.fetch_add(1, std::memory_order_release);  // before its memory can be another's
  pythons.load(std::memory_order_relaxed)(code);
}

bool is_type_of_code(const void* type) {
  const auto* const name = Direct().read<const char*>(type, name_offset);
  return name != nullptr && std::strcmp(name, "code") == 0;
}

}  // namespace

void watch_code(const void* code_type) {
  if (watched.load(std::memory_order_relaxed) || !is_type_of_code(code_type)) return;
  if (place.load(std::memory_order_relaxed) == nullptr) {
    auto* const type = static_cast<std::byte*>(const_cast<void*>(code_type));     // NOLINT(*-const-cast)
    auto* const slot = reinterpret_cast<std::atomic<Free>*>(type + free_offset);  // Python reads it in one go
    Free before = pythons.load(std::memory_order_relaxed);
    if (before == nullptr) {
      before = slot->load(std::memory_order_acquire);
      pythons.store(before, std::memory_order_release);
    }
    if (!slot->compare_exchange_strong(before, count_and_free, std::memory_order_acq_rel)) return;
    place.store(slot, std::memory_order_relaxed);
  }
  deaths.fetch_add(1, std::memory_order_relaxed);  // for those that nobody counted
  watched.store(true, std::memory_order_release);
}

void unwatch_code() {
  watched.store(false, std::memory_order_release);
  std::atomic<Free>* const slot = place.load(std::memory_order_relaxed);
  Free ours = count_and_free;
  if (slot != nullptr && slot->compare_exchange_strong(ours, pythons.load(std::memory_order_relaxed)))
    place.store(nullptr, std::memory_order_relaxed);
}

std::uint32_t code_epoch() {
  return watched.load(std::memory_order_acquire) ? deaths.load(std::memory_order_acquire) : 0;
}

}  // namespace memreel::python
