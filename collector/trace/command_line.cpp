#include "collector/trace/command_line.h"
#include "formats/model/whole_file.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

namespace memreel::agent {
namespace {

constexpr std::string_view mask = "***";
constexpr std::string_view spaces = " \t\r\n";

bool is_alphanumeric(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

/// {"hf", "token"} of "HF_TOKEN", "--hf-token" and "hfToken".
std::vector<std::string> words_of(std::string_view name) {
  std::vector<std::string> words(1);
  for (std::size_t i = 0; i < name.size(); ++i) {
    const auto c = static_cast<unsigned char>(name[i]);
    const bool hump = i > 0 && std::isupper(c) != 0 && std::islower(static_cast<unsigned char>(name[i - 1])) != 0;
    if (!is_alphanumeric(name[i]) || hump) words.emplace_back();
    if (is_alphanumeric(name[i])) words.back() += static_cast<char>(std::tolower(c));
  }
  std::erase(words, "");
  return words;
}

template <std::size_t Size>
bool is_one_of(const std::array<std::string_view, Size>& list, std::string_view word) {
  return std::ranges::find(list, word) != list.end();
}

/// "max-tokens" and "tokenizer" are not secrets; "hf_token" and "api-key" are.
bool names_a_secret(std::string_view name) {
  constexpr std::array<std::string_view, 8> anywhere{"password", "passwd",  "passphrase", "pwd",
                                                     "secret",   "secrets", "apikey",     "credentials"};
  constexpr std::array<std::string_view, 6> last{"token", "auth", "credential", "bearer", "pass", "jwt"};
  constexpr std::array<std::string_view, 9> before_key{"api",  "access",  "secret",  "private",   "auth",
                                                       "hmac", "account", "signing", "encryption"};
  const std::vector<std::string> words = words_of(name);
  if (words.empty()) return false;
  if (std::ranges::any_of(words, [&](const std::string& word) { return is_one_of(anywhere, word); })) return true;
  if (is_one_of(last, words.back())) return true;
  return words.back() == "key" && words.size() > 1 && is_one_of(before_key, words[words.size() - 2]);
}

bool begins_like_a_token(std::string_view word) {
  constexpr std::array<std::string_view, 12> prefixes{"hf_",    "sk-",   "ghp_",  "gho_", "ghs_", "github_pat_",
                                                      "glpat-", "xoxb-", "xoxp-", "AKIA", "eyJ",  "nvapi-"};
  constexpr std::size_t shortest = 16;
  return word.size() >= shortest &&
         std::ranges::any_of(prefixes, [&](std::string_view prefix) { return word.starts_with(prefix); });
}

/// The length of the assignable name at the start of `text`.
std::size_t name_length(std::string_view text) {
  const auto belongs = [](char c) { return is_alphanumeric(c) || c == '-' || c == '_' || c == '.'; };
  return static_cast<std::size_t>(std::ranges::find_if_not(text, belongs) - text.begin());
}

/// "postgres://user:***@host/x" for a URL with a password, else the word.
std::string without_password(std::string_view word) {
  const std::size_t scheme = word.find("://");
  if (scheme == std::string_view::npos) return std::string(word);
  const std::size_t begin = scheme + 3;
  const std::size_t at = word.substr(0, word.find('/', begin)).rfind('@');
  const std::size_t colon = word.find(':', begin);
  if (at == std::string_view::npos || colon == std::string_view::npos || colon > at) return std::string(word);
  return std::string(word.substr(0, colon + 1)) + std::string(mask) + std::string(word.substr(at));
}

/// A word without spaces, alone or in a script.
std::string masked_word(std::string_view word) {
  const std::size_t quoted = std::min(word.find_first_not_of("\"'([{"), word.size());
  const std::string_view inside = word.substr(quoted);
  const std::size_t name = name_length(inside);
  if (name > 0 && name + 1 < inside.size() && inside[name] == '=' && names_a_secret(inside.substr(0, name)))
    return std::string(word.substr(0, quoted + name + 1)) + std::string(mask);
  if (begins_like_a_token(inside)) return std::string(mask);
  const std::size_t value = inside.find('=');
  if (value != std::string_view::npos && begins_like_a_token(inside.substr(value + 1)))
    return std::string(word.substr(0, quoted + value + 1)) + std::string(mask);
  return without_password(word);
}

/// An argument of several words, where the one after "--token", "Bearer" or "Authorization:" is also masked.
std::string masked_words(std::string_view text) {
  std::string masked;
  bool follows = false;
  while (!text.empty()) {
    const std::size_t gap = std::min(text.find_first_not_of(spaces), text.size());
    masked += text.substr(0, gap);
    text.remove_prefix(gap);
    const std::string_view word = text.substr(0, text.find_first_of(spaces));
    text.remove_prefix(word.size());
    const bool authorization = words_of(word) == std::vector<std::string>{"authorization"};
    const bool scheme = follows && (words_of(word) == std::vector<std::string>{"bearer"} ||
                                    words_of(word) == std::vector<std::string>{"basic"});
    masked += follows && !scheme && !word.starts_with("--") && !word.empty() ? std::string(mask) : masked_word(word);
    const bool option = word.starts_with("--") && name_length(word) == word.size() && names_a_secret(word);
    follows = option || authorization || scheme || word == "Bearer";
  }
  return masked;
}

std::string masked_argument(const std::string& argument, bool follows) {
  if (follows && !argument.starts_with("--")) return std::string(mask);
  const std::size_t name = name_length(argument);
  // Everything after the sign, spaces included.
  if (argument.starts_with('-') && name < argument.size() && argument[name] == '=' &&
      names_a_secret(std::string_view(argument).substr(0, name)))
    return argument.substr(0, name + 1) + std::string(mask);
  return masked_words(argument);
}

bool awaits_a_secret(const std::string& argument) {
  return argument.starts_with('-') && name_length(argument) == argument.size() && names_a_secret(argument);
}

}  // namespace

std::vector<std::string> own_arguments() {
  const Result<std::string> file = read_whole_file("/proc/self/cmdline");
  const std::string text = file ? *file : std::string();
  std::vector<std::string> arguments;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\0', begin), text.size());
    arguments.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return arguments;
}

std::string text_of_arguments(std::span<const std::string> arguments) {
  std::string text;
  for (const std::string& argument : arguments) text += (text.empty() ? "" : " ") + argument;
  return text;
}

std::string masked_value(std::string_view name, const std::string& value) {
  return names_a_secret(name) ? std::string(mask) : masked_argument(value, false);
}

std::string masked_text_of_arguments(std::span<const std::string> arguments) {
  std::vector<std::string> masked;
  bool follows = false;
  for (const std::string& argument : arguments) {
    masked.push_back(masked_argument(argument, follows));
    follows = awaits_a_secret(argument);
  }
  return text_of_arguments(masked);
}

}  // namespace memreel::agent
