// SPDX-License-Identifier: Apache-2.0
#include "viewer/model/typed_input.h"

#include <algorithm>
#include <cctype>

#include "formats/model/quantity.h"
#include "formats/torch/alloc_conf.h"

namespace memreel::viewer {
namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

/// Limits the size if `word` is a size.
bool take_size(std::string_view word, Filter& filter) {
  const std::size_t signs = word.find_first_not_of("<>=");
  if (signs == 0 || signs == std::string_view::npos) return false;
  const std::string_view sign = word.substr(0, signs);
  const auto size = parse_bytes(word.substr(signs));
  if (!size) return false;
  if (sign == "=")
    filter.least = filter.most = *size;
  else if (sign == ">=")
    filter.least = *size;
  else if (sign == "<=")
    filter.most = *size;
  else if (sign == ">")
    filter.least = *size + 1_B;
  else if (sign == "<" && *size > 0_B)
    filter.most = *size - 1_B;
  else
    return false;
  return true;
}

/// Splits into words; a size with a space before its number or unit is one word.
std::vector<std::string> words_of(std::string_view typed) {
  std::vector<std::string> words;
  while (!typed.empty()) {
    const std::size_t end = std::min(typed.find(' '), typed.size());
    const std::string word(typed.substr(0, end));
    typed.remove_prefix(std::min(end + 1, typed.size()));
    if (word.empty()) continue;
    const bool goes_on = !words.empty() && std::string_view("<>=").find(words.back().front()) != std::string_view::npos;
    Filter limits;
    if (goes_on && take_size(words.back() + word, limits))
      words.back() += word;
    else
      words.push_back(word);
  }
  return words;
}

void add_word(std::string& to, std::string_view word) { to += (to.empty() ? "" : " ") + std::string(word); }

}  // namespace

Filter typed_filter(std::string_view typed) {
  Filter filter;
  for (const std::string& word : words_of(typed))
    if (!take_size(word, filter)) add_word(filter.text, word);
  return filter;
}

std::string with_least(std::string_view typed, std::string_view least) {
  std::string result;
  for (const std::string& word : words_of(typed)) {
    Filter limits;
    if (!take_size(word, limits) || limits.least == 0_B) add_word(result, word);
  }
  if (!least.empty()) add_word(result, ">=" + std::string(least));
  return result;
}

Sieve::Sieve(std::shared_ptr<const Document> document, Filter filter,
             std::shared_ptr<const Classification> classification)
    : document_(std::move(document)), filter_(std::move(filter)), classification_(std::move(classification)) {
  if (filter_.text.empty()) return;
  if (const std::string text = lower(filter_.text); text.starts_with("0x")) address_ = text;
  stacks_ = stacks_with(*document_->tables, filter_.text);
}

bool Sieve::passes_but_category(std::uint32_t allocation) const {
  if (allocation >= document_->allocation_count()) return false;
  const Bytes size = document_->size_of(allocation);
  if (size < filter_.least || size > filter_.most) return false;
  if (filter_.text.empty() || has_text(document_->stack_of(allocation))) return true;
  return !address_.empty() && hexadecimal(document_->address_of(allocation).value).starts_with(address_);
}

std::vector<bool> stacks_with(const Tables& tables, std::string_view text) {
  const std::string wanted = lower(text);
  const auto has = [&](StringId id) { return lower(tables[id]).find(wanted) != std::string::npos; };
  std::vector<bool> frames(tables.frames.size()), stacks(tables.stacks.size());
  for (std::size_t f = 1; f < frames.size(); ++f) {
    const Frame& frame = tables.frames[f];
    frames[f] = has(frame.function) || has(frame.file) || has(frame.instance) ||
                lower(tables[frame.file] + ":" + std::to_string(frame.line)).find(wanted) != std::string::npos;
  }
  for (std::size_t s = 1; s < stacks.size(); ++s)
    stacks[s] = frames[index(tables.stacks[s].frame)] || stacks[index(tables.stacks[s].caller)];
  return stacks;
}

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

Result<Bytes> parse_memory_limit(const std::string& typed) {
  if (typed.empty()) return Bytes{};
  Result<Bytes> limit = parse_bytes(typed);
  if (limit && *limit > 0_B) return limit;
  return Error{.what = "'" + typed + "' is not a size", .where = "--max-memory", .remedy = "write a size such as 4GiB"};
}

Error not_an_instant(const std::string& typed) {
  return {.what = "'" + typed + "' is not an instant",
          .where = "--at",
          .remedy = "write seconds (1.5), a share (45%), event:1000, peak, reserved-peak, oom or end"};
}

}  // namespace memreel::viewer
