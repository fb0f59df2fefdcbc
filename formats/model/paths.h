// SPDX-License-Identifier: Apache-2.0
// Paths that recordings name. They are text: the files may be on another machine.
#pragma once

#include <string_view>

namespace memreel {

/// "train.py" of "src/train.py".
constexpr std::string_view base_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

}  // namespace memreel
