// The program's help, and what it says to words that it does not know.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/model/result.h"

namespace CLI {  // NOLINT(readability-identifier-naming): its own name
class App;
}

namespace memreel::cli {

/// A command that is a program of its own, found beside this one.
struct Sibling {
  std::string_view command, program, description;
};

std::span<const Sibling> siblings();

/// Help that fits the terminal. To be called before commands are added.
void set_formatter(CLI::App& app);

/// Lists the siblings among the commands, and puts all of them into groups by what they are for. To be called once all
/// commands are added.
void arrange_commands(CLI::App& app);

/// The one of `known` that `word` was most likely meant to be; nothing where none is near.
std::optional<std::string> nearest(std::string_view word, std::span<const std::string> known);

/// What is wrong with the words of a command line where the command, or one of its options, is not known; nothing where
/// these are in order.
std::optional<Error> unknown_word(CLI::App& app, std::span<char* const> words);

}  // namespace memreel::cli
