// SPDX-License-Identifier: Apache-2.0
#include "formats/command_line/option_values.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <cstdio>

#include "formats/model/quantity.h"

namespace memreel {
namespace {

std::string text_of(std::uint64_t number) { return std::to_string(number); }

std::string text_of(double number) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%g", number);
  return text.data();
}

template <class Number, class Parse>
CLI::Option* add(CLI::App& app, const std::string& names, std::function<void(Number)> set, Range<Number> range,
                 const std::string& description, Parse parse, const std::string& kind) {
  const std::string name = names.substr(names.rfind(',') + 1);
  const auto read = [=](const CLI::results_t& values) {
    for (const std::string& value : values) {
      const std::optional<Number> number = parse(value);
      if (!number || *number < range.least || *number > range.most)
        throw CLI::ValidationError(
            name, "'" + value + "' is not " + kind + " from " + text_of(range.least) + " to " + text_of(range.most));
      set(*number);
    }
    return true;
  };
  return app.add_option(names, read, description)->type_name("N");
}

}  // namespace

CLI::Option* add_whole_number(CLI::App& app, const std::string& names, std::function<void(std::uint64_t)> set,
                              Range<std::uint64_t> range, const std::string& description) {
  return add(app, names, std::move(set), range, description, parse_integer, "a whole number");
}

CLI::Option* add_whole_numbers(CLI::App& app, const std::string& names, std::function<void(std::uint64_t)> set,
                               Range<std::uint64_t> range, const std::string& description) {
  return add_whole_number(app, names, std::move(set), range, description)
      ->expected(1, CLI::detail::expected_max_vector_size)
      ->allow_extra_args();
}

CLI::Option* add_number(CLI::App& app, const std::string& names, std::function<void(double)> set, Range<double> range,
                        const std::string& description) {
  const auto parse = [](std::string_view text) { return parse_fraction(text, std::chars_format::general); };
  return add(app, names, std::move(set), range, description, parse, "a number");
}

std::function<std::string(const std::string&)> one_of(std::vector<std::string> words) {
  return [words = std::move(words)](const std::string& text) {
    if (std::ranges::find(words, text) != words.end()) return std::string();
    std::string known;
    for (const std::string& word : words) known += (known.empty() ? "" : ", ") + word;
    return "'" + text + "' is none of: " + known;
  };
}

std::optional<Error> empty_value(std::span<char* const> words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string_view word = words[i];
    if (word == "--") break;
    const bool is_long = word.starts_with("--");
    const bool is_next = (is_long || (word.starts_with('-') && word.size() == 2)) && i + 1 < words.size() &&
                         std::string_view(words[i + 1]).empty();
    if (!is_next && !(is_long && word.ends_with('='))) continue;
    return Error{.what = std::string(word.substr(0, word.find('='))) + " has an empty value",
                 .remedy = "give one, or leave the option out"};
  }
  return std::nullopt;
}

}  // namespace memreel
