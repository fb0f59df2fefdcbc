#include "viewer/model/policy_input.h"

#include <vector>

#include "formats/torch/alloc_conf.h"

namespace memreel::viewer {
namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blank = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(blank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(blank) - begin + 1);
}

/// Strips `export`, the variable's name and quotes.
std::string_view without_variable(std::string_view text) {
  text = trimmed(text);
  if (constexpr std::string_view word = "export "; text.starts_with(word)) text = trimmed(text.substr(word.size()));
  for (const std::string_view name : conf_variables)
    if (text.starts_with(name) && text.substr(name.size()).starts_with('=')) text.remove_prefix(name.size() + 1);
  if (text.size() >= 2 && text.front() == text.back() && (text.front() == '"' || text.front() == '\''))
    text = text.substr(1, text.size() - 2);
  return trimmed(text);
}

/// Splits at commas outside brackets.
std::vector<std::string_view> parts_of(std::string_view text) {
  std::vector<std::string_view> parts;
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : ',';
    depth += c == '{' || c == '[' ? 1 : c == '}' || c == ']' ? -1 : 0;
    if (c != ',' || (depth > 0 && i < text.size())) continue;
    parts.push_back(trimmed(text.substr(begin, i - begin)));
    begin = i + 1;
  }
  return parts;
}

/// "max_split_size_mb:300": no policy has a colon in its name.
bool is_setting(std::string_view part) {
  const std::size_t colon = part.find(':'), brace = part.find('{');
  return colon != std::string_view::npos && colon < brace;
}

}  // namespace

std::string as_policies(std::string_view typed) {
  std::string policies, settings;
  const auto append = [](std::string& list, std::string_view part) {
    if (!list.empty()) list += ",";
    list += part;
  };
  const auto end_settings = [&] {
    if (!settings.empty()) append(policies, "torch.native{" + settings + "}");
    settings.clear();
  };
  for (const std::string_view part : parts_of(without_variable(typed))) {
    if (is_setting(part)) {
      append(settings, part);
      continue;
    }
    end_settings();
    append(policies, part);
  }
  end_settings();
  return policies;
}

}  // namespace memreel::viewer
