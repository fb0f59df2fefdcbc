// SPDX-License-Identifier: Apache-2.0
#include "formats/model/printable.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <cstdio>

namespace memreel {
namespace {

bool is_plain(char c) { return c >= ' ' && c <= '~'; }

/// A character in UTF-8 and how many bytes it takes.
struct Character {
  std::uint32_t code = 0;
  std::size_t size = 1;
  bool valid = false;
};

Character first_of(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::uint8_t lead = byte(0);
  if (lead < 0x80) return {.code = lead, .valid = true};
  const std::size_t size = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < size) return {.code = lead};
  std::uint32_t code = lead & (0x7FU >> size);
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xC0U) != 0x80U) return {.code = lead};
    code = code << 6U | (byte(i) & 0x3FU);
  }
  static constexpr std::array<std::uint32_t, 5> least{0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = code >= 0xD800 && code <= 0xDFFF;
  if (code < least.at(size) || code > 0x10FFFF || is_surrogate) return {.code = lead};
  return {.code = code, .size = size, .valid = true};
}

/// Control characters, line and paragraph ends, direction marks, and invisible characters.
bool misleads(std::uint32_t code) {
  return code < 0x20 || (code >= 0x7F && code <= 0x9F) || code == 0xAD || code == 0x61C || code == 0x180E ||
         (code >= 0x200B && code <= 0x200F) || (code >= 0x2028 && code <= 0x202E) ||
         (code >= 0x2060 && code <= 0x206F) || code == 0xFEFF || (code >= 0xFFF9 && code <= 0xFFFB) ||
         (code >= 0xE0000 && code <= 0xE007F);
}

std::string escape(const Character& character) {
  if (character.valid && character.code == '\n') return "\\n";
  if (character.valid && character.code == '\r') return "\\r";
  if (character.valid && character.code == '\t') return "\\t";
  std::array<char, 16> text{};
  const char* const format = character.size == 1 ? "\\x%02x" : "\\u%04x";
  const int length = std::snprintf(text.data(), text.size(), format, static_cast<unsigned>(character.code));
  return {text.data(), static_cast<std::size_t>(length)};
}

}  // namespace

bool is_binary(std::string_view piece) {
  constexpr std::size_t least = 4096, allowed = 16;  // bytes to judge by; one of so many may be a control character
  const auto is_control = [](char c) {
    return c > '\0' && c < ' ' && std::string_view("\a\b\t\n\v\f\r\x1b").find(c) == std::string_view::npos;
  };
  // Its letters have bytes that are control characters: half of all in Cyrillic.
  const bool is_utf16 = piece.starts_with("\xff\xfe") || piece.starts_with("\xfe\xff");
  return piece.size() >= least && !is_utf16 &&
         static_cast<std::size_t>(std::ranges::count_if(piece, is_control)) > piece.size() / allowed;
}

bool is_printable(std::string_view text) {
  while (!text.empty()) {
    if (is_plain(text.front())) {
      text.remove_prefix(1);
      continue;
    }
    const Character character = first_of(text);
    if (!character.valid || misleads(character.code)) return false;
    text.remove_prefix(character.size);
  }
  return true;
}

std::string printable(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const Character character = first_of(text);
    if (character.valid && !misleads(character.code))
      result.append(text.substr(0, character.size));
    else
      result += escape(character);
    text.remove_prefix(character.size);
  }
  return result;
}

void make_printable(std::string& text) {
  if (!is_printable(text)) text = printable(text);
}

std::string shell_word(std::string_view file) {
  const std::string text = (file.starts_with('-') ? "./" : "") + std::string(file);
  const auto is_plain_in_a_shell = [](char c) {
    return static_cast<unsigned char>(c) >= 0x80 || std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("_@%+=:,./-").find(c) != std::string_view::npos;
  };
  if (!text.empty() && std::ranges::all_of(text, is_plain_in_a_shell)) return text;
  std::string word = "'";
  for (const char c : text)
    if (c == '\'')
      word += R"('\'')";
    else
      word += c;
  return word + "'";
}

}  // namespace memreel
