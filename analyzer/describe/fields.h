// SPDX-License-Identifier: Apache-2.0
// Results described once: each row type has a list of its fields, of which every output is made: the text, Markdown and
// HTML tables, JSON and its schema, and the viewer's table.
#pragma once

#include <variant>

#include "formats/model/tables.h"
#include "formats/model/units.h"

namespace memreel {

/// What a field holds. It decides the alignment in tables, the type in JSON, and the unit in its documentation.
enum class Unit : std::uint8_t {
  text,
  flag,
  count,
  bytes,      // as the allocator takes them
  requested,  // bytes as the program requested them
};

/// A field of one row; none: not recorded, or it does not apply.
using Cell = std::variant<std::monostate, bool, std::uint64_t, Bytes, std::string>;

/// As in tables: "6.02 GiB", "1,234", "yes"; empty for none.
std::string text_of(const Cell& cell);

/// For sorting: 0 for text.
double number_of(const Cell& cell);

/// Of the type in JSON Schema, "string", "boolean", "integer".
std::string_view schema_type(Unit unit);

/// " [bytes]": what follows a field's sentence, before its full stop.
std::string_view unit_text(Unit unit);

template <class Row>
struct ResultField {
  std::string_view key;       // in JSON; empty: for tables only
  std::string_view title;     // of the column; empty: for JSON only
  Unit unit = Unit::text;     // of its value
  std::string_view sentence;  // what it says, without a full stop
  Cell (*value)(const Tables& tables, const Row& row) = nullptr;

  bool is_number() const { return unit != Unit::text; }
  /// "Held when the trace ends [bytes]."
  std::string description() const { return std::string(sentence) + std::string(unit_text(unit)) + "."; }
};

/// The fields of a row type, in the order of its columns. Specialised beside each type.
template <class Row>
struct FieldsOf;

/// Calls `each(field)` for the fields that are columns of tables.
template <class Row>
void for_each_column(auto each) {
  for (const ResultField<Row>& field : FieldsOf<Row>::all)
    if (!field.title.empty()) each(field);
}

/// The cells of a row of a table.
template <class Row>
std::vector<std::string> cells_of(const Tables& tables, const Row& row) {
  std::vector<std::string> cells;
  for_each_column<Row>([&](const ResultField<Row>& field) { cells.push_back(text_of(field.value(tables, row))); });
  return cells;
}

}  // namespace memreel
