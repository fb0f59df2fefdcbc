#include "analyzer/device/real_memory.h"

#include <algorithm>

namespace memreel::gpu {
namespace {

constexpr Bytes range_addresses = 1024_GiB;  // more than any GPU has; addresses cost nothing

}  // namespace

RealMemory::~RealMemory() {
  for (const auto& [address, segment] : segments_) give_back(segment.address, segment.size);
  for (const Mapping& mapping : range_mappings_) gpu_.unmap(mapping.address, mapping.size);
  if (range_ != 0) gpu_.free_addresses(range_, range_addresses);
}

bool RealMemory::reserve(Address address, Bytes size) {
  std::optional<DevicePointer> pointer;
  if (how_ == SegmentsBy::malloc) {
    pointer = gpu_.malloc(size);
  } else {
    size = round_up(size, granularity);
    pointer = gpu_.reserve_addresses(size);
    if (pointer && !gpu_.map_new(*pointer, size)) {
      gpu_.free_addresses(*pointer, size);
      pointer.reset();
    }
  }
  if (!pointer) return false;
  segments_[address.value] = {.address = *pointer, .size = size};
  measure();
  return true;
}

void RealMemory::release(Address address, Bytes) {
  const auto found = segments_.find(address.value);
  if (found == segments_.end()) return;
  give_back(found->second.address, found->second.size);
  segments_.erase(found);
}

bool RealMemory::extend(Bytes size) {
  if (size.count % granularity.count != 0) {
    misaligned_ = true;
    return false;
  }
  if (range_ == 0) range_ = gpu_.reserve_addresses(range_addresses).value_or(0);
  const DevicePointer end =
      range_mappings_.empty() ? range_ : range_mappings_.back().address + range_mappings_.back().size.count;
  if (range_ == 0 || end + size.count > range_ + range_addresses.count || !gpu_.map_new(end, size)) return false;
  range_mappings_.push_back({.address = end, .size = size});
  measure();
  return true;
}

void RealMemory::shrink(Bytes size) {
  while (size > 0_B && !range_mappings_.empty()) {
    Mapping& last = range_mappings_.back();
    gpu_.unmap(last.address, last.size);
    if (last.size <= size) {
      size -= last.size;
      range_mappings_.pop_back();
    } else {
      // Only whole mappings can be undone; a replay stores nothing in the memory, so the rest is mapped again.
      last.size -= size;
      size = 0_B;
      if (!gpu_.map_new(last.address, last.size)) range_mappings_.pop_back();
    }
  }
}

void RealMemory::give_back(DevicePointer pointer, Bytes size) {
  if (how_ == SegmentsBy::malloc) {
    gpu_.free(pointer, size);
  } else {
    gpu_.unmap(pointer, size);
    gpu_.free_addresses(pointer, size);
  }
}

void RealMemory::measure() {
  highest_taken_ = std::max(highest_taken_, free_at_start_ - std::min(gpu_.free_memory(), free_at_start_));
}

}  // namespace memreel::gpu
