#include "analyzer/replay/unit_costs.h"

namespace memreel {

double UnitCosts::seconds(const DriverCalls& calls) const {
  const auto cost = [&](DriverCall kind, std::uint64_t count, Bytes bytes = {}) {
    const UnitCost& unit = (*this)[kind];
    const double mebibytes = static_cast<double>(bytes.count) / static_cast<double>((1_MiB).count);
    return unit.fixed_seconds * static_cast<double>(count) + unit.seconds_per_mib * mebibytes;
  };
  return cost(DriverCall::malloc, calls.malloc - calls.malloc_shared, calls.malloc_bytes) +
         cost(DriverCall::free, calls.free - calls.free_shared, calls.free_bytes) +
         cost(DriverCall::malloc_shared, calls.malloc_shared) + cost(DriverCall::free_shared, calls.free_shared) +
         cost(DriverCall::malloc_async, calls.malloc_async) + cost(DriverCall::free_async, calls.free_async) +
         cost(DriverCall::map, calls.map, calls.map_bytes) + cost(DriverCall::unmap, calls.unmap, calls.unmap_bytes) +
         cost(DriverCall::sync, calls.sync);
}

}  // namespace memreel
