// Text in Markdown as GitHub and GitLab read it. What a trace says is anybody's: it must not become markup, a mention
// or a link.
#pragma once

#include <string>
#include <string_view>

namespace memreel {

/// For running text: every character that could mean something is escaped, line ends and
/// controls as printable() does.
std::string markdown_escaped(std::string_view text);

/// As code, for running text and for cells of tables; at most `bytes` bytes of `text`.
std::string markdown_code(std::string_view text, std::size_t bytes = 120);

}  // namespace memreel
