// SPDX-License-Identifier: Apache-2.0
#include "formats/model/wrapping.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>

namespace memreel {
namespace {

constexpr std::size_t usual_width = 80;
constexpr std::size_t least_width = 40;  // nothing sensible fits in less
constexpr std::size_t most_width = 1000;

bool continues(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; }

/// The length in bytes of the first `columns` code points.
std::size_t bytes_of(std::string_view text, std::size_t columns) {
  std::size_t at = 0;
  while (at < text.size() && columns > 0) {
    ++at;
    while (at < text.size() && continues(text[at])) ++at;
    --columns;
  }
  return at;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Whether a comma groups the digits of a number: "1,234".
bool groups_digits(std::string_view text, std::size_t comma) {
  const std::string_view group = text.substr(comma + 1, 3);
  return comma > 0 && is_digit(text[comma - 1]) && group.size() == 3 && std::ranges::all_of(group, is_digit) &&
         (comma + 4 == text.size() || !is_digit(text[comma + 4]));
}

/// Whether a line may end before `at`, which is not 0.
bool may_break(std::string_view text, std::size_t at) {
  return text[at] == ' ' || (text[at - 1] == ',' && !groups_digits(text, at - 1));
}

/// Where to break `text`, which is longer than `room` bytes.
std::size_t break_in(std::string_view text, std::size_t room) {
  for (std::size_t at = room; at > 0; --at)
    if (may_break(text, at)) return at;
  const std::size_t comma = text.substr(0, room).rfind(',');  // a list of numbers rather than one
  return comma == std::string_view::npos ? room : comma + 1;
}

}  // namespace

std::size_t terminal_width() {
  std::size_t columns = 0;
  // Nothing here changes the environment.
  if (const char* const said = std::getenv("COLUMNS")) {  // NOLINT(concurrency-mt-unsafe)
    const std::string_view text(said);
    std::from_chars(text.data(), text.data() + text.size(), columns);
  }
  winsize size{};
  if (columns == 0 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) columns = size.ws_col;
  return columns == 0 ? usual_width : std::clamp(columns, least_width, most_width);
}

std::size_t display_width(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char c) { return !continues(c); }));
}

std::string clipped_middle(std::string_view text, std::size_t width) {
  const std::size_t all = display_width(text);
  if (all <= width) return std::string(text);
  if (width == 0) return {};
  const std::size_t behind = (width - 1) / 2;
  const std::size_t before = width - 1 - behind;
  return std::string(text.substr(0, bytes_of(text, before))) + "…" +
         std::string(text.substr(bytes_of(text, all - behind)));
}

std::vector<std::string> wrapped_lines(std::string_view text, std::size_t width, std::size_t hanging) {
  std::vector<std::string> lines;
  while (display_width(text) > width) {
    const std::size_t end = break_in(text, bytes_of(text, std::max<std::size_t>(1, width)));
    if (lines.empty()) width -= std::min(width, hanging);
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(end);
    while (text.starts_with(' ')) text.remove_prefix(1);
  }
  if (!text.empty() || lines.empty()) lines.emplace_back(text);
  return lines;
}

std::string wrapped(std::string_view text, std::size_t indent, std::size_t width, std::size_t hanging) {
  std::string result;
  for (const std::string& line : wrapped_lines(text, width - std::min(width - 1, indent), hanging))
    result += std::string(indent + (result.empty() ? 0 : hanging), ' ') + line + '\n';
  return result;
}

std::size_t longest_word(std::string_view text) {
  std::size_t longest = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    if (text[begin] == ' ') {
      ++begin;
      continue;
    }
    std::size_t end = begin + 1;
    while (end < text.size() && !may_break(text, end)) ++end;
    longest = std::max(longest, display_width(text.substr(begin, end - begin)));
    begin = end;
  }
  return longest;
}

}  // namespace memreel
