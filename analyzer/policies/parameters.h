// SPDX-License-Identifier: Apache-2.0
// Strict parsing of policy parameters: an unknown, malformed or out-of-range parameter is an error that says what is
// allowed.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "analyzer/engine/policy_spec.h"
#include "formats/model/quantity.h"
#include "formats/model/result.h"
#include "formats/model/units.h"

namespace memreel {

/// The error for an invalid parameter value. `expected`: "a size such as 2MiB".
Error bad_parameter(const PolicySpec& spec, const std::string& parameter, std::string_view expected);

/// `spec` completed with defaults. Errors: a parameter that `defaults` does not list.
Result<PolicySpec> with_defaults(const PolicySpec& spec, const std::map<std::string, std::string>& defaults);

/// "512", "2MiB", "1.5GB". None if it is not a size.
std::optional<Bytes> parse_size(std::string_view text);
/// The shortest exact form: "2MiB", "512".
std::string size_text(Bytes size);

/// A parameter that is a power of two between `least` and `most`.
Result<Bytes> power_of_two_parameter(const PolicySpec& spec, const std::string& parameter, Bytes least, Bytes most);

}  // namespace memreel
