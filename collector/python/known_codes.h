// The row of the code table for the code object at an address.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace memreel::python {

/// A grow-only map from the address of a code object to the row it was last found to have. Any thread, any time, no
/// locks. It does not notice that a code object died and another replaced it: its user must check the version.
class KnownCodes {
 public:
  struct Known {
    std::uint32_t number = 0;  // 0: unknown address
    std::uint32_t version = 0;
  };

  /// `slots` is a power of two. If the system refuses the memory, nothing is ever known.
  explicit KnownCodes(std::uint32_t slots = 1U << 16U);
  ~KnownCodes();
  KnownCodes(const KnownCodes&) = delete;
  KnownCodes& operator=(const KnownCodes&) = delete;

  Known find(const void* code) const {  // inline: called for every frame of every walk
    if (count_ == 0) return {};
    const auto address = std::bit_cast<std::uintptr_t>(code);
    std::uint32_t slot = home(address);
    for (std::uint32_t i = 0; i < neighbourhood; ++i, slot = (slot + 1) & (count_ - 1)) {
      const std::uintptr_t other = slots_[slot].address.load(std::memory_order_relaxed);
      if (other == address) return std::bit_cast<Known>(slots_[slot].known.load(std::memory_order_acquire));
      if (other == 0) break;
    }
    return {};
  }

  /// Replaces what was known about the address. Does nothing if that part of the map is full.
  void set(const void* code, Known known);

 private:
  struct Slot {
    std::atomic<std::uintptr_t> address;  // never changes once set
    std::atomic<std::uint64_t> known;
  };
  static constexpr std::uint32_t neighbourhood = 16;

  std::uint32_t home(std::uintptr_t address) const {
    return static_cast<std::uint32_t>(address * 0x9E3779B97F4A7C15 >> 40U) & (count_ - 1);  // 2^64 / golden ratio
  }

  Slot* slots_ = nullptr;
  std::uint32_t count_ = 0;
};

}  // namespace memreel::python
