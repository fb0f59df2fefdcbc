// The CUDA contexts, or memory pools, seen so far: the device of each, and a small number for each.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace memreel::cuda {

/// Any thread may look up and add at any time, without locks. An object created at an earlier one's address gets a new
/// number.
class KnownObjects {
 public:
  struct Known {
    std::uint16_t number = 0;  // 0: unknown
    std::int16_t device = 0;

    friend bool operator==(const Known&, const Known&) = default;
  };

  Known find(const void* object) const;
  /// The number is 0 if there is no room. Adding a known object again changes nothing.
  Known add(const void* object, std::int16_t device);
  /// Like add(), but an earlier object may have been known at this address.
  void put(const void* object, std::int16_t device);
  /// Whether objects were ever on more than one device.
  bool on_several_devices() const {
    const std::uint64_t devices = devices_.load(std::memory_order_relaxed);
    return (devices & (devices - 1)) != 0;
  }
  /// The object with this number is gone.
  void remove(std::uint16_t number);

  /// Calls visit(const void* object, std::int16_t device) for each current object.
  void for_each(auto&& visit) const {
    for (std::size_t i = 1; i < count(); ++i)
      if (const void* const object = entries_[i].object.load(std::memory_order_acquire))
        visit(object, entries_[i].device.load(std::memory_order_relaxed));
  }

 private:
  struct Entry {
    std::atomic<const void*> object = nullptr;
    std::atomic<std::int16_t> device = 0;
  };

  std::size_t count() const { return std::min<std::size_t>(count_.load(std::memory_order_acquire), entries_.size()); }

  std::array<Entry, 1024> entries_;  // the first is unused
  std::atomic<std::uint16_t> count_ = 1;
  std::atomic<std::uint64_t> devices_ = 0;  // one bit per device
};

}  // namespace memreel::cuda
