// SPDX-License-Identifier: Apache-2.0
// Results described once: each row type has a list of its fields, of which every output is made: the text, Markdown and
// HTML tables, JSON and its schema, and the viewer's table.
#pragma once

#include <cstddef>
#include <iosfwd>
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

// Escaping for HTML and Markdown. A trace's contents are untrusted: they must not become markup, a mention or a link.

/// For text and double-quoted attributes. Control characters become U+FFFD; browsers replace invalid UTF-8.
std::string html_escaped(std::string_view text);

/// At most `bytes` bytes of UTF-8, cut between code points, with an ellipsis if anything was cut.
std::string clipped(std::string_view text, std::size_t bytes);

/// A table of cells that are already HTML.
class HtmlTable {
 public:
  struct Column {
    std::string_view title;
    bool is_number = false;
  };

  explicit HtmlTable(std::vector<Column> columns) : columns_(std::move(columns)) {}
  void add_row(const std::vector<std::string>& cells);
  bool empty() const { return rows_.empty(); }
  std::string text() const;

 private:
  std::vector<Column> columns_;
  std::string rows_;
};

// Markdown escaping for GitHub and GitLab. A trace's contents are untrusted: they must not become markup, a mention or
// a link.

/// For running text: escapes every special character; line ends and controls as in printable().
std::string markdown_escaped(std::string_view text);

/// As code, for running text and table cells; at most `bytes` bytes of `text`.
std::string markdown_code(std::string_view text, std::size_t bytes = 120);

// Tables for terminals: aligned columns, right-aligned numbers, and no line wider than the terminal.

// Fitting text to the terminal.

/// The width of the terminal on standard output, unless COLUMNS overrides it; 80 if there is no terminal.
std::size_t terminal_width();

/// The number of terminal columns of UTF-8 text, one per code point.
std::size_t display_width(std::string_view text);

/// Shortens `text` to at most `width` columns by omitting its middle, because names differ at their ends.
std::string clipped_middle(std::string_view text, std::size_t width);

/// Breaks `text` into lines of at most `width` columns at blanks and after commas; if there are none, anywhere. Never
/// empty. Lines after the first are narrower by `hanging`.
std::vector<std::string> wrapped_lines(std::string_view text, std::size_t width, std::size_t hanging = 0);

/// The same as one string: each line is indented, within `width`, those after the first by `hanging` more, and ends
/// with a line feed.
std::string wrapped(std::string_view text, std::size_t indent, std::size_t width = terminal_width(),
                    std::size_t hanging = 0);

enum class Align : std::uint8_t { left, right };

/// What becomes of text in the last column that is too long for its line.
enum class Fit : std::uint8_t { wrapped, clipped };

struct TableColumn {
  std::string title;
  Align align = Align::left;
  Fit fit = Fit::wrapped;  // clipped: for places in code, which are told apart by their ends
};

class TextTable {
 public:
  explicit TextTable(std::vector<TableColumn> columns) : columns_(std::move(columns)) {}

  /// Ignores cells beyond the columns; missing ones are empty.
  void add_row(std::vector<std::string> cells) { rows_.push_back({std::move(cells), false}); }
  /// Adds a line between the rows before and after it.
  void add_rule() { rows_.push_back({{}, true}); }
  bool empty() const { return rows_.empty(); }

  /// Writes title, rule and rows, each line indented by `indent` spaces and without trailing blanks. If they are wider
  /// than `width`, the last column, if it is wrapped text, continues on further lines, next to the numbers or, if there
  /// is no room, below them; long cells of other text columns lose their middle. Numbers are never cut.
  void print(std::ostream& out, int indent = 0, std::size_t width = terminal_width()) const;

 private:
  class Layout;

  struct Row {
    std::vector<std::string> cells;
    bool is_rule;
  };

  std::vector<TableColumn> columns_;
  std::vector<Row> rows_;
};

}  // namespace memreel
