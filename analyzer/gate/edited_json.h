// SPDX-License-Identifier: Apache-2.0
// JSON that people edit and merge by hand, as they do baselines.
#pragma once

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <string_view>

namespace memreel {

struct EditedJson {
  nlohmann::ordered_json document;   // discarded, or not an object, if the text is not JSON
  std::optional<std::string> twice;  // a key that an object has twice: the document has only one of the values
};

/// Drops what is nested deeper than any baseline: copying or destroying it would overflow the stack.
EditedJson parse_edited_json(std::string_view text);

}  // namespace memreel
