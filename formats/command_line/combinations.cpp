// SPDX-License-Identifier: Apache-2.0
#include "formats/command_line/combinations.h"

#include <CLI/CLI.hpp>

#include <algorithm>

namespace memreel {
namespace {

std::vector<const CLI::Option*> options_of(const CLI::App& app, const OptionNames& names) {
  std::vector<const CLI::Option*> options;
  for (const std::string& name : names) options.push_back(app.get_option(name));
  return options;
}

const CLI::Option* first_given(const std::vector<const CLI::Option*>& options) {
  const auto given = std::ranges::find_if(options, [](const CLI::Option* option) { return option->count() > 0; });
  return given == options.end() ? nullptr : *given;
}

/// "--max-leaked, --baseline or --write-baseline"
std::string any_of(const OptionNames& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i)
    text += (i == 0 ? "" : i + 1 == names.size() ? " or " : ", ") + names[i];
  return text;
}

}  // namespace

// CLI11 checks values after it has seen all arguments.

void only_with(CLI::App& app, const OptionNames& options, const OptionNames& needed) {
  const auto check = [others = options_of(app, needed), needed](const std::string&) {
    return first_given(others) != nullptr ? std::string() : "has no effect without " + any_of(needed);
  };
  for (const std::string& name : options) app.get_option(name)->check(check);
}

void not_with(CLI::App& app, const OptionNames& options, const OptionNames& others, const OptionNames& saving) {
  const auto check = [others = options_of(app, others), savers = options_of(app, saving), saving](const std::string&) {
    const CLI::Option* const other = first_given(others);
    if (other == nullptr || first_given(savers) != nullptr) return std::string();
    return "has no effect with " + other->get_name() + (saving.empty() ? "" : " but without " + any_of(saving));
  };
  for (const std::string& name : options) app.get_option(name)->check(check);
}

}  // namespace memreel
