#include "formats/export/text.h"

#include <nlohmann/json.hpp>

namespace memreel {

std::string json_string(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string utf8(std::string_view text) { return nlohmann::json::parse(json_string(text)).get<std::string>(); }

}  // namespace memreel
