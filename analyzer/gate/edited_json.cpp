// SPDX-License-Identifier: Apache-2.0
#include "analyzer/gate/edited_json.h"

#include <array>
#include <set>

namespace memreel {

EditedJson parse_edited_json(std::string_view text) {
  using Json = nlohmann::ordered_json;
  constexpr std::size_t deepest = 8;
  EditedJson edited;
  std::array<std::set<std::string>, deepest + 1> keys;  // of the object that is open at each depth
  const auto keep = [&](int depth, Json::parse_event_t event, Json& value) {
    const auto level = static_cast<std::size_t>(depth);
    if (level > deepest) return false;
    // An object begins at the depth that it is in; its keys are one deeper.
    if (event == Json::parse_event_t::object_start && level < deepest) keys[level + 1].clear();
    if (event == Json::parse_event_t::key && !keys[level].insert(value.get<std::string>()).second && !edited.twice)
      edited.twice = value.get<std::string>();
    return true;
  };
  edited.document = Json::parse(text, keep, false);
  return edited;
}

}  // namespace memreel
