// Markdown escaping for GitHub and GitLab. A trace's contents are untrusted: they must not become markup, a mention or
// a link.
#pragma once

#include <string>
#include <string_view>

namespace memreel {

/// For running text: escapes every special character; line ends and controls as in printable().
std::string markdown_escaped(std::string_view text);

/// As code, for running text and table cells; at most `bytes` bytes of `text`.
std::string markdown_code(std::string_view text, std::size_t bytes = 120);

}  // namespace memreel
