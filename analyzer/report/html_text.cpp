#include "analyzer/report/html_text.h"

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

}  // namespace memreel
