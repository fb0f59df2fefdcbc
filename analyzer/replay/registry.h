// Policies by name.
#pragma once

#include <string_view>

#include "analyzer/engine/policy_entry.h"

namespace memreel {

/// Errors: no policy has the spec's name, or the policy does not take its parameters.
Result<BoundPolicy> bind_policy(const PolicySpec& spec);

/// The entry of a name, or null.
const PolicyEntry* find_policy(std::string_view name);

/// Whether to bind the spec is to load a library of the user's, and so to run code that is in it.
bool loads_library(const PolicySpec& spec);

}  // namespace memreel
