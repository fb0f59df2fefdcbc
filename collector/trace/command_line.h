// The program's command line, as the trace's header has it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace memreel::agent {

/// This process's arguments.
std::vector<std::string> own_arguments();

/// The arguments with spaces between.
std::string text_of_arguments(std::span<const std::string> arguments);

/// The same with "***" for what looks like a secret: the value of an option or variable named like one (--api-key=X,
/// --token X, PASSWORD=X, also inside of a script that is an argument), the password in a URL, what follows
/// "Authorization:" or "Bearer", and tokens that services begin with a known prefix.
std::string masked_text_of_arguments(std::span<const std::string> arguments);

/// The value of a variable, with "***" where it is, or has in it, what looks like a secret.
std::string masked_value(std::string_view name, const std::string& value);

}  // namespace memreel::agent
