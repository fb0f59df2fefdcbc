#include "analyzer/report/markdown_text.h"

#include <algorithm>

#include "analyzer/report/html_text.h"
#include "formats/model/printable.h"

namespace memreel {
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
