// SPDX-License-Identifier: Apache-2.0
// "torch.native{max_split_size_mb=128}": a policy with its parameters. "torch{max_split_size_mb:128}" is also accepted.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "formats/model/result.h"

namespace memreel {

struct PolicySpec {
  std::string name;
  std::map<std::string, std::string> parameters;

  /// In the syntax of the command line, parameters in alphabetical order.
  std::string text() const;
  friend bool operator==(const PolicySpec&, const PolicySpec&) = default;
};

/// Parses a comma-separated list of specs; commas inside braces belong to the spec. Checks only the syntax: the
/// registry checks names and parameters.
Result<std::vector<PolicySpec>> parse_policies(std::string_view text);

}  // namespace memreel
