// SPDX-License-Identifier: Apache-2.0
#include "formats/model/python_holders.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

#include "formats/model/printable.h"

namespace memreel {
namespace {

/// Removes the text up to `separator`, or all of it, from `rest`.
std::string_view take(std::string_view& rest, char separator) {
  const std::size_t end = std::min(rest.find(separator), rest.size());
  const std::string_view taken = rest.substr(0, end);
  rest.remove_prefix(std::min(rest.size(), end + 1));
  return taken;
}

std::optional<std::uint64_t> take_number(std::string_view& rest) {
  const std::string_view word = take(rest, ' ');
  std::uint64_t number = 0;
  const auto [end, problem] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (problem != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return number;
}

std::optional<Nanoseconds> take_time(std::string_view& rest) {
  const auto number = take_number(rest);
  if (!number || *number > std::uint64_t{std::numeric_limits<std::int64_t>::max()}) return std::nullopt;
  return Nanoseconds(static_cast<std::int64_t>(*number));
}

std::optional<PythonHolder> holder_in(std::string_view rest) {
  const auto bytes = take_number(rest), blocks = take_number(rest), length = take_number(rest);
  const auto before = take_number(rest);
  if (!bytes || !blocks || !length || !before) return std::nullopt;
  const std::string_view kind = take(rest, '\t');
  return PythonHolder{.text = std::string(rest),
                      .kind = std::string(kind),
                      .length = *length,
                      .length_before = *before,
                      .blocks = *blocks,
                      .bytes = {*bytes}};
}

/// At most the longest text, of whole characters, as it may be printed.
void clean(std::string& text) {
  text = printable(text);
  if (text.size() <= PythonHolders::longest_text) return;
  std::size_t end = PythonHolders::longest_text;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  text.resize(end);
  text += "...";
}

}  // namespace

void tidy(PythonHolders& holders) {
  holders.rows.resize(std::min(holders.rows.size(), PythonHolders::most_rows));
  for (PythonHolder& row : holders.rows) {
    clean(row.text);
    clean(row.kind);
  }
  clean(holders.note);
  std::erase_if(holders.blocks, [&](const PythonBlock& block) { return block.holder >= holders.rows.size(); });
  holders.blocks.resize(std::min(holders.blocks.size(), PythonHolders::most_blocks));
  std::ranges::stable_sort(holders.blocks, {}, &PythonBlock::address);
}

PythonHolders parse_python_holders(std::string_view text) {
  PythonHolders found;
  while (!text.empty()) {
    std::string_view rest = take(text, '\n');
    const std::string_view word = take(rest, ' ');
    if (word == "walk") {
      const auto time = take_time(rest), took = take_time(rest);
      const auto objects = take_number(rest);
      if (!time || !took || !objects) continue;
      found.time = *time;
      found.took = *took;
      found.objects = *objects;
    } else if (word == "note") {
      found.note += (found.note.empty() ? "" : "; ") + std::string(rest.substr(0, PythonHolders::longest_text));
    } else if (word == "holder" && found.rows.size() < PythonHolders::most_rows) {
      if (auto row = holder_in(rest)) found.rows.push_back(*std::move(row));
    } else if (word == "block" && found.blocks.size() < PythonHolders::most_blocks) {
      const auto address = take_number(rest), row = take_number(rest);
      if (address && row && *row < found.rows.size())
        found.blocks.push_back({.address = {*address}, .holder = static_cast<std::uint32_t>(*row)});
    }
  }
  tidy(found);
  return found;
}

}  // namespace memreel
