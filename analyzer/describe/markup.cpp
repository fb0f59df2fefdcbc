// SPDX-License-Identifier: Apache-2.0
#include "analyzer/describe/markup.h"

#include "formats/model/printable.h"

namespace memreel {

std::string html_escaped(std::string_view text) {
  std::string escaped;
  escaped.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F)
          escaped += c == '\n' || c == '\t' ? " " : "\xEF\xBF\xBD";
        else
          escaped += c;
    }
  }
  make_printable(escaped);  // bytes that are not UTF-8, and what changes the direction
  return escaped;
}

std::string clipped(std::string_view text, std::size_t bytes) {
  if (text.size() <= bytes) return std::string(text);
  std::size_t end = bytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80) --end;
  return std::string(text.substr(0, end)) + "…";
}

void HtmlTable::add_row(const std::vector<std::string>& cells) {
  rows_ += "<tr>";
  for (std::size_t i = 0; i < columns_.size(); ++i)
    rows_ +=
        (columns_[i].is_number ? "<td class=n>" : "<td>") + (i < cells.size() ? cells[i] : std::string()) + "</td>";
  rows_ += "</tr>\n";
}

std::string HtmlTable::text() const {
  std::string html = "<div class=scroll><table><thead><tr>";
  for (const Column& column : columns_)
    html += (column.is_number ? "<th class=n>" : "<th>") + html_escaped(column.title) + "</th>";
  return html + "</tr></thead><tbody>\n" + rows_ + "</tbody></table></div>\n";
}

std::string markdown_escaped(std::string_view text) {
  static constexpr std::string_view special = "\\`*_{}[]()#+!|~^$";
  std::string escaped;
  for (const char c : printable(text)) {
    if (c == '<') {
      escaped += "&lt;";
    } else if (c == '>') {
      escaped += "&gt;";
    } else if (c == '&') {
      escaped += "&amp;";
    } else if (c == '@' || c == ':') {
      escaped += c;
      if (c == '@') escaped += "<!-- -->";  // prevents mentions
    } else {
      if (special.find(c) != std::string_view::npos) escaped += '\\';
      escaped += c;
    }
  }
  // Prevents links from anything that looks like a URL.
  for (std::size_t at = 0; (at = escaped.find("://", at)) != std::string::npos; at += 11)
    escaped.insert(at + 1, "<!-- -->");
  for (std::size_t at = 0; (at = escaped.find("www.", at)) != std::string::npos; at += 12)
    escaped.insert(at + 3, "<!-- -->");
  return escaped;
}

std::string markdown_code(std::string_view text, std::size_t bytes) {
  std::string code = clipped(printable(text), bytes);
  std::size_t run = 0, longest = 0;
  for (const char c : code) {
    run = c == '`' ? run + 1 : 0;
    longest = std::max(longest, run);
  }
  // A bar ends a table cell, even in code.
  for (std::size_t at = 0; (at = code.find('|', at)) != std::string::npos; at += 2) code.insert(at, "\\");
  const std::string fence(longest + 1, '`');
  const char* const pad = longest > 0 || code.empty() ? " " : "";
  return fence + pad + code + pad + fence;
}

}  // namespace memreel
