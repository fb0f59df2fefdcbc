// SPDX-License-Identifier: Apache-2.0
#include "collector/options/journal.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <system_error>
#include <vector>

namespace memreel::agent {
namespace {

constexpr std::array<std::string_view, 3> words{"began", "ended", "refused"};

std::string on_one_line(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '\t' || c == '\n'; }, ' ');
  return text;
}

/// A name of any bytes as a field of a line.
std::string escaped(std::string_view name) {
  std::string field;
  for (const char c : name)
    if (c == '\t')
      field += "\\t";
    else if (c == '\n')
      field += "\\n";
    else if (c == '\\')
      field += R"(\\)";
    else
      field += c;
  return field;
}

std::string unescaped(std::string_view field) {
  std::string name;
  for (std::size_t i = 0; i < field.size(); ++i)
    if (field[i] != '\\' || i + 1 == field.size())
      name += field[i];
    else
      name += field[++i] == 't' ? '\t' : field[i] == 'n' ? '\n' : field[i];
  return name;
}

bool read_number(std::string_view text, std::uint64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size();
}

}  // namespace

std::string to_line(const JournalEntry& entry) {
  std::string line(words[static_cast<std::size_t>(entry.what)]);
  for (const std::uint64_t number : {entry.process, entry.events, entry.lost, entry.cost_ns, entry.own_ns})
    line += "\t" + std::to_string(number);
  return line + "\t" + escaped(entry.trace) + "\t" + on_one_line(entry.text) + "\n";
}

std::optional<JournalEntry> parse_journal_line(std::string_view line) {
  std::vector<std::string_view> fields;
  for (std::size_t tab = 0; tab != std::string_view::npos && fields.size() < 9;) {
    tab = line.find('\t');
    fields.push_back(line.substr(0, tab));
    if (tab != std::string_view::npos) line.remove_prefix(tab + 1);
  }
  if (fields.size() != 8) return std::nullopt;
  const auto* const word = std::find(words.begin(), words.end(), fields[0]);
  if (word == words.end()) return std::nullopt;

  JournalEntry entry{.what = static_cast<JournalEntry::What>(word - words.begin()),
                     .trace = unescaped(fields[6]),
                     .text = std::string(fields[7])};
  const bool numbers = read_number(fields[1], entry.process) && read_number(fields[2], entry.events) &&
                       read_number(fields[3], entry.lost) && read_number(fields[4], entry.cost_ns) &&
                       read_number(fields[5], entry.own_ns);
  if (!numbers) return std::nullopt;
  return entry;
}

Result<void> append_to_journal(const std::string& journal, const JournalEntry& entry) {
  if (journal.empty()) return {};
  const int file = ::open(journal.c_str(), O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC);
  const std::string line = to_line(entry);
  const bool written = file >= 0 && ::write(file, line.data(), line.size()) == static_cast<ssize_t>(line.size());
  Result<void> result;
  if (!written)
    result = Error{.what = "can't write: " + std::generic_category().message(errno), .where = journal, .remedy = {}};
  if (file >= 0) ::close(file);
  return result;
}

}  // namespace memreel::agent
