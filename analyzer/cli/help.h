// The program's help, and its suggestions for unknown words.
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

/// A command implemented by a separate program in the same directory.
struct Sibling {
  std::string_view command, program, description;
};

std::span<const Sibling> siblings();

/// Fits help to the terminal. Call before adding commands.
void set_formatter(CLI::App& app);

/// Adds the siblings to the commands and groups all of them by purpose. Call after all commands are added.
void arrange_commands(CLI::App& app);

/// The entry of `known` that `word` most likely meant; nothing if none is close.
std::optional<std::string> nearest(std::string_view word, std::span<const std::string> known);

/// The error for a command line whose command, or one of its options, is unknown; nothing if all are known.
std::optional<Error> unknown_word(CLI::App& app, std::span<char* const> words);

}  // namespace memreel::cli
