#pragma once

#include <ranges>

#include "analyzer/replay/replay.h"

namespace memreel::testing {

/// The registered policies that model device memory, through which synthetic heaps can be replayed.
inline auto device_policies() {
  return policies() | std::views::filter([](const PolicyInfo& policy) { return !policy.host_memory; });
}

}  // namespace memreel::testing
