// SPDX-License-Identifier: Apache-2.0
#include "formats/command_line/parse_errors.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <iostream>

namespace memreel {
namespace {

/// The Damerau-Levenshtein distance: substitutions, deletions, insertions and swaps of adjacent letters.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i)
    for (std::size_t j = 1; j <= b.size(); ++j) {
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  return d[a.size()][b.size()];
}

/// CLI11's words for what is no option's own value, in ours.
std::string our_words(const std::string& words) {
  const std::string name = words.substr(0, words.find_first_of(": "));
  if (words.find(": At Most 1 required") != std::string::npos) return name + " is given more than once";
  if (words.find(" required ") != std::string::npos && words.ends_with(" missing")) return name + " needs a value";
  return words;
}

}  // namespace

std::optional<std::string> nearest(std::string_view word, std::span<const std::string> known) {
  std::optional<std::string> best;
  std::size_t least = 1 + std::max<std::size_t>(1, word.size() / 3);  // anything further away is another word
  for (const std::string& name : known) {
    const bool begins = word.size() >= 3 && name.starts_with(word);
    const std::size_t away = begins ? 1 : distance(word, name);
    if (away >= least) continue;
    least = away;
    best = name;
  }
  return best;
}

std::string suggestion(std::string_view word, std::span<const std::string> known, std::string otherwise) {
  const auto meant = nearest(word, known);
  return meant ? "did you mean '" + *meant + "'?" : std::move(otherwise);
}

Error unknown_option(const std::string& command, std::string_view option, std::span<const std::string> options) {
  return {.what = command + " has no option '" + std::string(option) + "'",
          .where = {},
          .offset = {},
          .remedy = suggestion(option, options, command + " --help lists its options")};
}

std::vector<std::string> long_options(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

Error usage_error(const CLI::App& app, const CLI::ParseError& problem) {
  const CLI::App* command = &app;
  std::string name = app.get_name().substr(0, app.get_name().find(" ["));
  while (!command->get_subcommands().empty()) {
    command = command->get_subcommands().front();
    name += " " + command->get_name();
  }
  // What remains of a launcher's arguments is the program's.
  if (!app.get_prefix_command()) {
    const std::vector<std::string> extra = app.remaining(true);
    for (const std::string& word : extra)
      if (word.size() > 1 && word.starts_with('-'))
        return unknown_option(name, word.substr(0, word.find('=')), long_options(*command));
    if (!extra.empty())
      return {.what = "'" + extra.front() + "' is more than " + name + " takes",
              .where = {},
              .offset = {},
              .remedy = "see " + name + " --help"};
  }
  return {.what = our_words(problem.what()), .where = {}, .offset = {}, .remedy = "see " + name + " --help"};
}

Result<int> answer_parse(const CLI::App& app, const CLI::ParseError& problem) {
  if (problem.get_exit_code() != 0) return usage_error(app, problem);
  const int code = app.exit(problem);
  if (!std::cout.flush()) return cut_off_output();
  return code;
}

Error cut_off_output() {
  return {.what = "can't write everything",
          .where = "standard output",
          .offset = {},
          .remedy = "is the disk full, or the pipe closed?"};
}

}  // namespace memreel
