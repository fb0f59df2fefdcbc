// SPDX-License-Identifier: Apache-2.0
// Simulated GPU memory: who owns how much, and how much is left. It has no contents to read or write.
//
// Sizes follow measurements on an H200 (docs/measurements.md): requests up to 1 MiB share 2 MiB pages, larger ones take
// whole pages; stream-ordered pools grow by 32 MiB.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "tests/fake/abi.h"
#include "tests/fake/address_range.h"

namespace fake {

inline constexpr std::uint64_t page = 2U << 20U, chunk = 32U << 20U;

constexpr std::uint64_t round_up(std::uint64_t size, std::uint64_t unit) { return (size + unit - 1) / unit * unit; }

class Gpu {
 public:
  explicit Gpu(int number, std::uint64_t capacity);

  /// Takes physical memory; false when not enough is left.
  bool take(std::uint64_t size);
  void give_back(std::uint64_t size) { taken_ -= size; }
  std::uint64_t capacity() const { return capacity_; }
  std::uint64_t free() const { return capacity_ - taken_; }

  /// Like cuMemAlloc: 0 when there is not enough memory.
  DevicePointer malloc(std::uint64_t size);
  /// False when no allocation begins there.
  bool free(DevicePointer pointer);

  /// The size of the allocation that begins there, as malloc rounded it; 0 when none does.
  std::uint64_t size_of(DevicePointer pointer) const {
    const auto found = sizes_.find(pointer);
    return found != sizes_.end() ? found->second : 0;
  }

  /// Address ranges only, without memory behind them.
  DevicePointer reserve(std::uint64_t size);
  void unreserve(DevicePointer pointer, std::uint64_t size) { addresses_.add(pointer, size); }

 private:
  std::uint64_t capacity_, taken_ = 0;
  Space addresses_;                                    // whole pages
  Space small_;                                        // free space inside the pages that small requests share
  std::map<DevicePointer, std::uint64_t> sizes_;       // of allocations made by malloc
  std::map<DevicePointer, std::uint64_t> small_used_;  // bytes used in each shared page
};

}  // namespace fake

struct fake::Pool {
  Gpu* gpu = nullptr;
  std::uint64_t max = 0, threshold = 0, reserved = 0, reserved_high = 0, used = 0, used_high = 0;
  bool destroyed = false;
  Space addresses;
  std::map<DevicePointer, std::uint64_t> sizes;

  /// 0 when the GPU, or the pool's limit, does not have enough.
  DevicePointer malloc(std::uint64_t size);
  bool free(DevicePointer pointer);
  /// Releases unused memory beyond `keep` bytes.
  void trim(std::uint64_t keep);
};
