// SPDX-License-Identifier: Apache-2.0
// HTML and Markdown. A trace's contents are untrusted: escaped, they become no markup, no mention and no link.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace memreel {

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

// For GitHub and GitLab.

/// For running text: escapes every special character; line ends and controls as in printable().
std::string markdown_escaped(std::string_view text);

/// As code, for running text and table cells; at most `bytes` bytes of `text`.
std::string markdown_code(std::string_view text, std::size_t bytes = 120);

}  // namespace memreel
