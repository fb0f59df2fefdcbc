// SPDX-License-Identifier: Apache-2.0
#include "formats/torch/release.h"

#include <array>
#include <iterator>
#include <set>

#include "formats/model/quantity.h"

namespace memreel {
namespace {

/// Those that histories show.
constexpr std::array placing{torch_rule::oldest_block, torch_rule::oldest_segment,
                             torch_rule::segments_for_private_pools, torch_rule::ones_are_exact};

/// The first releases of each set of these rules.
std::set<unsigned> first_releases() {
  std::set<unsigned> firsts;
  for (const TorchReleases& rule : placing) {
    firsts.insert(rule.first);
    if (rule.last != TorchReleases::newest) firsts.insert(rule.last + 1);
  }
  return firsts;
}

/// Removes `before` and the digits that follow it, if both are there.
void skip_numbered(std::string_view& text, std::string_view before) {
  const std::size_t end = std::min(text.find_first_not_of("0123456789", before.size()), text.size());
  if (text.starts_with(before) && end > before.size()) text.remove_prefix(end);
}

/// What may follow "2.12" in a version (PEP 440): ".1", "a0", "rc1", ".dev20260101", "+cu130", or " or newer".
bool ends_a_version(std::string_view text) {
  for (const std::string_view before : {".", "a", "b", "rc", ".post", ".dev"}) skip_numbered(text, before);
  return text.empty() || text.starts_with(" or ") || (text.starts_with('+') && text.size() > 1);
}

}  // namespace

std::optional<TorchRelease> TorchRelease::parse(std::string_view text) {
  constexpr std::string_view major = "2.", other = " or ";
  if (const std::size_t second = text.find(other); second != std::string_view::npos)
    if (const std::string_view last = text.substr(second + other.size()); last.starts_with(major)) text = last;
  if (!text.starts_with(major)) return std::nullopt;
  text.remove_prefix(major.size());
  const std::size_t end = std::min(text.find_first_not_of("0123456789"), text.size());
  const auto minor = parse_integer(text.substr(0, end));
  if (!minor || *minor == 0 || *minor > 999 || !ends_a_version(text.substr(end))) return std::nullopt;
  return TorchRelease{static_cast<unsigned>(*minor)};
}

std::optional<TorchRelease> TorchRelease::recorded(const std::map<std::string, std::string>& settings) {
  const auto found = settings.find(std::string(recorded_key));
  return found == settings.end() ? std::nullopt : parse(found->second);
}

bool TorchRelease::precedes_rules(const std::map<std::string, std::string>& settings) {
  const auto found = settings.find(std::string(recorded_key));
  return found != settings.end() && found->second == before_rules;
}

std::vector<TorchRelease> TorchRelease::distinct() {
  const std::set<unsigned> firsts = first_releases();
  std::vector<TorchRelease> releases{{*firsts.rbegin()}};
  for (auto first = firsts.rbegin(); std::next(first) != firsts.rend(); ++first) releases.push_back({*first - 1});
  return releases;
}

std::string TorchRelease::rules() const {
  const std::set<unsigned> firsts = first_releases();
  const auto next = firsts.upper_bound(minor);
  const unsigned first = *std::prev(next);
  const std::string from = "2." + std::to_string(first);
  if (next == firsts.end()) return from + " and newer";
  return *next == first + 1 ? from : from + " to 2." + std::to_string(*next - 1);
}

}  // namespace memreel
