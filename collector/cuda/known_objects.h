// CUDA's contexts, or its memory pools, as they were seen: which device each is on, and a small number for each.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace memreel::cuda {

/// Any thread may ask and add at any time, without locks. An object that is created where an earlier one was gets a
/// number of its own.
class KnownObjects {
 public:
  struct Known {
    std::uint16_t number = 0;  // 0: not known
    std::int16_t device = 0;

    friend bool operator==(const Known&, const Known&) = default;
  };

  Known find(const void* object) const;
  /// Its number is 0 when there is no room for more. Adding a known one again changes nothing.
  Known add(const void* object, std::int16_t device);
  /// As add(), where what was known of an object at this place may be of an earlier one.
  void put(const void* object, std::int16_t device);
  /// Whether there were ever objects on more than one device.
  bool on_several_devices() const {
    const std::uint64_t devices = devices_.load(std::memory_order_relaxed);
    return (devices & (devices - 1)) != 0;
  }
  /// The object with this number is gone.
  void remove(std::uint16_t number);

  /// visit(const void* object, std::int16_t device) for all that are there.
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

  std::array<Entry, 1024> entries_;  // the first is not used
  std::atomic<std::uint16_t> count_ = 1;
  std::atomic<std::uint64_t> devices_ = 0;  // a bit for each
};

}  // namespace memreel::cuda
