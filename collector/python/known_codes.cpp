#include "collector/python/known_codes.h"

#include <sys/mman.h>

#include <bit>

namespace memreel::python {

KnownCodes::KnownCodes(std::uint32_t slots) {
  void* const memory =
      mmap(nullptr, slots * sizeof(Slot), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return;
  slots_ = static_cast<Slot*>(memory);  // zeroed memory holds atomics with value 0
  count_ = slots;
}

KnownCodes::~KnownCodes() {
  if (slots_ != nullptr) munmap(slots_, count_ * sizeof(Slot));
}

void KnownCodes::set(const void* code, Known known) {
  if (count_ == 0) return;
  const auto address = std::bit_cast<std::uintptr_t>(code);
  std::uint32_t slot = home(address);
  for (std::uint32_t i = 0; i < neighbourhood; ++i, slot = (slot + 1) & (count_ - 1)) {
    std::uintptr_t other = slots_[slot].address.load(std::memory_order_relaxed);
    if (other == 0 && slots_[slot].address.compare_exchange_strong(other, address, std::memory_order_relaxed))
      other = address;
    if (other == address)
      return slots_[slot].known.store(std::bit_cast<std::uint64_t>(known), std::memory_order_release);
  }
}

}  // namespace memreel::python
