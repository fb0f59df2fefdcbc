// What finds an allocation again: its ID or, for events without one, where it is. With hashes for FlatMap.
#pragma once

#include <cstdint>

#include "formats/model/flat_map.h"
#include "formats/model/ids.h"
#include "formats/model/units.h"

namespace memreel {

struct AllocationHash {
  std::uint64_t operator()(AllocationId id) const { return mix_bits(index(id)); }
};

/// An address alone is not unique: a framework's block may begin where the driver's allocation does.
struct HeapAddress {
  Address address;
  HeapId heap = HeapId::none;

  friend bool operator==(const HeapAddress&, const HeapAddress&) = default;
};

struct HeapAddressHash {
  std::uint64_t operator()(const HeapAddress& key) const { return mix_bits(key.address.value + index(key.heap)); }
};

}  // namespace memreel
