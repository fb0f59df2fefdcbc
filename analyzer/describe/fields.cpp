// SPDX-License-Identifier: Apache-2.0
#include "analyzer/describe/fields.h"

#include "formats/model/quantity.h"

namespace memreel {

std::string text_of(const Cell& cell) {
  struct Text {
    std::string operator()(std::monostate) const { return {}; }
    std::string operator()(bool flag) const { return flag ? "yes" : "no"; }
    std::string operator()(std::uint64_t count) const { return text_of(count); }
    std::string operator()(Bytes bytes) const { return text_of(bytes); }
    std::string operator()(const std::string& text) const { return text; }
  };
  return std::visit(Text{}, cell);
}

double number_of(const Cell& cell) {
  if (const auto* const bytes = std::get_if<Bytes>(&cell)) return static_cast<double>(bytes->count);
  if (const auto* const count = std::get_if<std::uint64_t>(&cell)) return static_cast<double>(*count);
  if (const auto* const flag = std::get_if<bool>(&cell)) return *flag ? 1 : 0;
  return 0;
}

std::string_view schema_type(Unit unit) {
  return unit == Unit::text ? "string" : unit == Unit::flag ? "boolean" : "integer";
}

std::string_view unit_text(Unit unit) {
  return unit == Unit::bytes ? " [bytes]" : unit == Unit::requested ? " [bytes, as requested]" : "";
}

}  // namespace memreel
