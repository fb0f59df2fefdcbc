// "torch.native{max_split_size_mb=128}": which policy, with which parameters. "torch{max_split_size_mb:128}" is as
// good.
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

  /// As it is written on the command line, parameters in alphabetical order.
  std::string text() const;
  friend bool operator==(const PolicySpec&, const PolicySpec&) = default;
};

/// Parses a comma list of specs; commas inside braces belong to the spec. Only the shape is checked here: names and
/// parameters are judged by the registry.
Result<std::vector<PolicySpec>> parse_policies(std::string_view text);

}  // namespace memreel
