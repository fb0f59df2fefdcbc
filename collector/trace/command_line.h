// The program's command line, for the trace's header.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace memreel::agent {

/// This process's arguments.
std::vector<std::string> own_arguments();

/// The arguments, joined by spaces.
std::string text_of_arguments(std::span<const std::string> arguments);

/// The same with "***" in place of likely secrets: the value of an option or variable named like one (--api-key=X,
/// --token X, PASSWORD=X, also inside a script passed as an argument), the password in a URL, what follows
/// "Authorization:" or "Bearer", and tokens with prefixes known from services.
std::string masked_text_of_arguments(std::span<const std::string> arguments);

/// The value of a variable, with "***" if it is or contains a likely secret.
std::string masked_value(std::string_view name, const std::string& value);

}  // namespace memreel::agent
