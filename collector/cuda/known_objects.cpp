#include "collector/cuda/known_objects.h"

namespace memreel::cuda {

KnownObjects::Known KnownObjects::find(const void* object) const {
  if (object == nullptr) return {};
  for (std::size_t i = count() - 1; i > 0; --i) {
    if (entries_[i].object.load(std::memory_order_acquire) != object) continue;
    return {static_cast<std::uint16_t>(i), entries_[i].device.load(std::memory_order_relaxed)};
  }
  return {};
}

KnownObjects::Known KnownObjects::add(const void* object, std::int16_t device) {
  if (object == nullptr) return {};
  if (const Known known = find(object); known.number != 0) return known;
  std::uint16_t number = count_.load(std::memory_order_relaxed);
  do {
    if (number >= entries_.size()) return {.device = device};
  } while (!count_.compare_exchange_weak(number, static_cast<std::uint16_t>(number + 1), std::memory_order_acq_rel));
  devices_.fetch_or(std::uint64_t{1} << (static_cast<unsigned>(device) & 63U), std::memory_order_relaxed);
  entries_[number].device.store(device, std::memory_order_relaxed);
  entries_[number].object.store(object, std::memory_order_release);
  return {number, device};
}

void KnownObjects::put(const void* object, std::int16_t device) {
  const Known known = find(object);
  if (known.number != 0 && known.device == device) return;
  if (known.number != 0) remove(known.number);
  add(object, device);
}

void KnownObjects::remove(std::uint16_t number) {
  if (number < entries_.size()) entries_[number].object.store(nullptr, std::memory_order_release);
}

}  // namespace memreel::cuda
