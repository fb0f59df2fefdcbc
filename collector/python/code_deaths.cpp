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

// Globals, since Python passes no context. What is known about deaths depends only on the slot's content: others change
// it too, and some restore what they found without checking what is there now.
std::atomic<std::uint32_t> deaths = 0;
std::atomic<std::atomic<Free>*> slot = nullptr;  // of the type; never changes once set
std::atomic<Free> pythons = nullptr;             // the slot's initial content

void count_and_free(void* code) {
  deaths.fetch_add(1, std::memory_order_release);  // before another object can reuse its memory
  pythons.load(std::memory_order_relaxed)(code);
  deaths.fetch_add(1, std::memory_order_release);  // 3.11.0 still shows the frame of code that dies (gh-99729)
}

bool is_type_of_code(const void* type) {
  const auto* const name = Direct().read<const char*>(type, name_offset);
  return name != nullptr && std::strcmp(name, "code") == 0;
}

}  // namespace

void watch_code(const void* code_type) {
  if (!is_type_of_code(code_type)) return;
  std::atomic<Free>* place = slot.load(std::memory_order_relaxed);
  if (place == nullptr) {
    auto* const type = static_cast<std::byte*>(const_cast<void*>(code_type));  // NOLINT(*-const-cast)
    place = reinterpret_cast<std::atomic<Free>*>(type + free_offset);          // Python reads it in one go
    Free none = nullptr;  // otherwise another thread was first, and the slot may already hold ours
    pythons.compare_exchange_strong(none, place->load(std::memory_order_acquire), std::memory_order_acq_rel);
    slot.store(place, std::memory_order_release);
  }
  // Only over Python's own function: any other one may lead to ours.
  Free before = pythons.load(std::memory_order_relaxed);
  if (place->load(std::memory_order_relaxed) != before) return;
  deaths.fetch_add(1, std::memory_order_release);  // for those that were not counted
  place->compare_exchange_strong(before, count_and_free, std::memory_order_acq_rel);
}

void unwatch_code() {
  Free ours = count_and_free;
  if (std::atomic<Free>* const place = slot.load(std::memory_order_acquire); place != nullptr)
    place->compare_exchange_strong(ours, pythons.load(std::memory_order_relaxed), std::memory_order_acq_rel);
}

std::uint32_t code_epoch() {
  const std::atomic<Free>* const place = slot.load(std::memory_order_acquire);
  const bool is_watched = place != nullptr && place->load(std::memory_order_acquire) == count_and_free;
  return is_watched ? deaths.load(std::memory_order_acquire) : 0;
}

}  // namespace memreel::python
