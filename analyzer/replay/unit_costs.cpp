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

UnitCosts UnitCosts::of_h200() {
  UnitCosts costs{.measured_on = "NVIDIA H200, CUDA 13.0"};
  costs[DriverCall::malloc] = {.fixed_seconds = 28.681e-6, .seconds_per_mib = 0.0511e-6};
  costs[DriverCall::free] = {.fixed_seconds = 24.655e-6, .seconds_per_mib = 0.2649e-6};
  costs[DriverCall::malloc_shared] = {.fixed_seconds = 1.438e-6};
  costs[DriverCall::free_shared] = {.fixed_seconds = 1.231e-6};
  costs[DriverCall::malloc_async] = {.fixed_seconds = 0.335e-6};
  costs[DriverCall::free_async] = {.fixed_seconds = 0.444e-6};
  costs[DriverCall::map] = {.fixed_seconds = 25.840e-6, .seconds_per_mib = 0.0596e-6};
  costs[DriverCall::unmap] = {.fixed_seconds = 20.532e-6, .seconds_per_mib = 0.2699e-6};
  costs[DriverCall::sync] = {.fixed_seconds = 0.391e-6};
  return costs;
}

std::uint64_t count_of(const DriverCalls& calls) {
  return calls.malloc + calls.free + calls.map + calls.unmap + calls.malloc_async + calls.free_async;
}

}  // namespace memreel
