// Text in HTML. What a trace says is anybody's: names of functions and files are never markup.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace memreel {

/// For text and for attributes in double quotes. Control characters become U+FFFD; what is not UTF-8 the browser
/// replaces.
std::string html_escaped(std::string_view text);

/// At most `bytes` bytes of UTF-8, cut between code points, with an ellipsis when something was cut.
std::string clipped(std::string_view text, std::size_t bytes);

/// A table of cells that are HTML already.
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

}  // namespace memreel
