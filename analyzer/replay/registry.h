// SPDX-License-Identifier: Apache-2.0
// Policies by name.
#pragma once

#include "analyzer/replay/engine/policy_interface.h"

namespace memreel {

/// Errors: no policy has the spec's name, or the policy does not accept its parameters.
Result<BoundPolicy> bind_policy(const PolicySpec& spec);

/// The entry with this name, or null.
const PolicyEntry* find_policy(std::string_view name);

/// Whether binding the spec loads a user's library, and so executes its code.
bool loads_library(const PolicySpec& spec);

}  // namespace memreel
