// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <iterator>
#include <vector>

#include "analyzer/replay/replay.h"

namespace memreel::testing {

/// The registered policies that model device memory, through which synthetic heaps can be replayed.
inline std::vector<PolicyInfo> device_policies() {
  std::vector<PolicyInfo> found;
  std::ranges::remove_copy_if(policies(), std::back_inserter(found), &PolicyInfo::host_memory);
  return found;
}

}  // namespace memreel::testing
