// SPDX-License-Identifier: Apache-2.0
#include "tests/fake/simulated_gpu.h"

#include <algorithm>

namespace fake {
namespace {

constexpr std::uint64_t spacing = 512, largest_small = 1U << 20U;
constexpr std::uint64_t first_address = 0x7000'0000'0000, addresses_of_gpu = 1ULL << 42U;

}  // namespace

Gpu::Gpu(int number, std::uint64_t capacity) : capacity_(capacity) {
  addresses_.add(first_address + static_cast<std::uint64_t>(number) * addresses_of_gpu, addresses_of_gpu);
}

bool Gpu::take(std::uint64_t size) {
  if (size > capacity_ - taken_) return false;
  taken_ += size;
  return true;
}

DevicePointer Gpu::malloc(std::uint64_t size) {
  if (size > capacity_) return 0;
  if (size > largest_small) {
    const std::uint64_t rounded = round_up(size, page);
    if (!take(rounded)) return 0;
    const DevicePointer pointer = *addresses_.take(rounded);
    sizes_[pointer] = rounded;
    return pointer;
  }
  const std::uint64_t rounded = round_up(size, spacing);
  auto place = small_.take(rounded);
  if (!place) {
    if (!take(page)) return 0;
    // Twice the address range, so that the gaps of adjacent pages never merge.
    const DevicePointer fresh = *addresses_.take(2 * page);
    small_.add(fresh, page);
    small_used_[fresh] = 0;
    place = small_.take(rounded);
  }
  sizes_[*place] = rounded;
  small_used_[*place / page * page] += rounded;
  return *place;
}

bool Gpu::free(DevicePointer pointer) {
  const auto found = sizes_.find(pointer);
  if (found == sizes_.end()) return false;
  const std::uint64_t size = found->second;
  sizes_.erase(found);
  const DevicePointer start = pointer / page * page;
  const auto shared = small_used_.find(start);
  if (shared == small_used_.end()) {
    addresses_.add(pointer, size);
    give_back(size);
    return true;
  }
  small_.add(pointer, size);
  shared->second -= size;
  if (shared->second == 0) {
    small_.remove_gap(start);
    small_used_.erase(shared);
    addresses_.add(start, 2 * page);
    give_back(page);
  }
  return true;
}

DevicePointer Gpu::reserve(std::uint64_t size) { return addresses_.take(round_up(size, page)).value_or(0); }

DevicePointer Pool::malloc(std::uint64_t size) {
  const std::uint64_t rounded = round_up(size, spacing);
  if (max != 0 && used + rounded > max) return 0;
  auto place = addresses.take(rounded);
  const std::uint64_t needed = std::max(reserved, round_up(used + rounded, chunk));
  if (needed > reserved && !gpu->take(needed - reserved)) {
    if (place) addresses.add(*place, rounded);
    return 0;
  }
  reserved = needed;
  if (!place) {
    // The pool remaps the memory it has, so only addresses can run out.
    const std::uint64_t more = round_up(rounded, chunk);
    addresses.add(gpu->reserve(more), more);
    place = addresses.take(rounded);
  }
  used += rounded;
  used_high = std::max(used_high, used);
  reserved_high = std::max(reserved_high, reserved);
  sizes[*place] = rounded;
  return *place;
}

bool Pool::free(DevicePointer pointer) {
  const auto found = sizes.find(pointer);
  if (found == sizes.end()) return false;
  used -= found->second;
  addresses.add(pointer, found->second);
  sizes.erase(found);
  return true;
}

void Pool::trim(std::uint64_t keep) {
  if (keep >= reserved) return;
  const std::uint64_t wanted = std::max(round_up(used, chunk), round_up(keep, chunk));
  if (wanted >= reserved) return;
  gpu->give_back(reserved - wanted);
  reserved = wanted;
}

}  // namespace fake
