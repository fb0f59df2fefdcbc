// SPDX-License-Identifier: Apache-2.0
#include "analyzer/describe/clipped_place.h"

#include <algorithm>
#include <map>
#include <set>

#include "formats/model/wrapping.h"

namespace memreel {
namespace {

constexpr std::string_view omitted = "…/";

bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

bool names_line(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  return colon != std::string_view::npos && colon + 1 < text.size() &&
         std::ranges::all_of(text.substr(colon + 1), is_digit);
}

namespace {

/// "step (src/train.py:41), compiled cxlfggre" in parts.
struct Parts {
  std::string_view function;  // "step"; empty: none
  std::string_view path;      // "src/train.py:41"; empty: not a place in a file
  std::string_view after;     // ", compiled cxlfggre"
};

Parts parts_of(std::string_view label) {
  const std::string_view place = without_compiled(label);
  const std::string_view after = label.substr(place.size());
  if (names_line(place)) return {.function = {}, .path = place, .after = after};
  const std::size_t open = place.rfind(" (");
  if (open == std::string_view::npos || !place.ends_with(')')) return {};
  const std::string_view inside = place.substr(open + 2, place.size() - open - 3);
  if (!names_line(inside)) return {};
  return {.function = place.substr(0, open), .path = inside, .after = after};
}

std::string joined(const Parts& parts, std::string_view omitted_folders, std::string_view path) {
  std::string text;
  if (!parts.function.empty()) text.append(parts.function).append(" (");
  text.append(omitted_folders).append(path).append(parts.function.empty() ? "" : ")").append(parts.after);
  return text;
}

/// How many bytes at both ends are the same in all of several labels.
struct Common {
  std::size_t prefix = 0, suffix = 0;
};

Common common_of(const std::set<std::string_view>& labels) {
  const std::string_view first = *labels.begin();
  std::size_t shortest = first.size();
  Common common{.prefix = first.size(), .suffix = first.size()};
  for (const std::string_view label : labels) {
    const auto same = static_cast<std::size_t>(std::ranges::mismatch(first, label).in1 - first.begin());
    const auto same_end = static_cast<std::size_t>(
        std::mismatch(first.rbegin(), first.rend(), label.rbegin(), label.rend()).first - first.rbegin());
    common = {.prefix = std::min(common.prefix, same), .suffix = std::min(common.suffix, same_end)};
    shortest = std::min(shortest, label.size());
  }
  return {.prefix = common.prefix, .suffix = std::min(common.suffix, shortest - common.prefix)};
}

/// Keeps the components of a path in which it differs from others, and as much of its end as fits. Empty: no room.
std::string clipped_around(std::string_view label, const Common& common, std::size_t width) {
  std::size_t begin = common.prefix;
  const std::size_t before = begin == 0 ? std::string_view::npos : label.rfind('/', begin - 1);
  begin = before == std::string_view::npos ? 0 : before + 1;
  const std::size_t end = std::min(label.find('/', std::max(begin, label.size() - common.suffix)), label.size());
  const std::string kept = (begin == 0 ? "" : std::string(omitted)) + std::string(label.substr(begin, end - begin));
  if (display_width(kept) > width) return {};
  for (std::size_t rest = end; rest < label.size(); rest = std::min(label.find('/', rest + 1), label.size())) {
    const std::string whole = kept + (rest == end ? "" : "/…") + std::string(label.substr(rest));
    if (display_width(whole) <= width) return whole;
  }
  return display_width(kept) + omitted.size() <= width && end < label.size() ? kept + "/…" : kept;
}

}  // namespace

std::string_view without_compiled(std::string_view label) { return label.substr(0, label.rfind(", compiled ")); }

std::string clipped_place(std::string_view label, std::size_t width) {
  if (display_width(label) <= width) return std::string(label);
  const Parts parts = parts_of(label);
  if (parts.path.empty()) return clipped_middle(label, width);
  if (std::string text = std::string(parts.path).append(parts.after); display_width(text) <= width) return text;
  std::string_view path = parts.path;
  for (std::size_t slash = path.find('/'); slash != std::string_view::npos; slash = path.find('/')) {
    path.remove_prefix(slash + 1);
    if (std::string text = joined(parts, omitted, path); display_width(text) <= width) return text;
  }
  if (std::string text = joined(parts, {}, path); display_width(text) <= width) return text;
  return clipped_middle(std::string(path).append(parts.after), width);
}

std::vector<std::string> clipped_places(const std::vector<std::string>& labels, std::size_t width) {
  std::map<std::string, std::set<std::string_view>> by_text;
  for (const std::string& label : labels) by_text[clipped_place(label, width)].insert(label);
  std::map<std::string, Common> clashes;
  for (const auto& [text, equal] : by_text)
    if (equal.size() > 1) clashes.emplace(text, common_of(equal));
  std::vector<std::string> texts;
  for (const std::string& label : labels) {
    std::string text = clipped_place(label, width);
    if (const auto clash = clashes.find(text); clash != clashes.end())
      if (std::string apart = clipped_around(label, clash->second, width); !apart.empty()) text = std::move(apart);
    texts.push_back(std::move(text));
  }
  return texts;
}

}  // namespace memreel
