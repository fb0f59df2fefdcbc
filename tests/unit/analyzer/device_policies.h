#pragma once

#include <ranges>

#include "analyzer/replay/replay.h"

namespace memreel::testing {

/// The registered policies of a device's memory, which are those that made-up heaps can be replayed through.
inline auto device_policies() {
  return policies() | std::views::filter([](const PolicyInfo& policy) { return !policy.host_memory; });
}

}  // namespace memreel::testing
