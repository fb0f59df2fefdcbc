#include "analyzer/fleet/identity.h"

#include <algorithm>
#include <charconv>

namespace memreel {
namespace {

std::optional<std::uint32_t> number_of(const std::string& text) {
  std::uint32_t number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || problem != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<std::uint32_t> match(const std::string& text, const std::regex& pattern) {
  std::smatch found;
  if (!std::regex_search(text, found, pattern) || found.size() < 2) return std::nullopt;
  return number_of(found[1].str());
}

/// The name without what says how it is stored: "rank3.pickle.xz" is "rank3".
std::string stem_of(const std::filesystem::path& file) {
  const std::string name = file.filename().string();
  return name.substr(0, name.find('.', 1));
}

}  // namespace

Result<RankNames> RankNames::pattern(const std::string& text) {
  RankNames names;
  try {
    names.own_.emplace(text, std::regex::ECMAScript | std::regex::icase);
  } catch (const std::regex_error&) {
    return Error{.what = "'" + text + "' is no regular expression",
                 .where = "--rank-pattern",
                 .remedy = "such as 'worker-([0-9]+)'"};
  }
  if (names.own_->mark_count() == 0)
    return Error{.what = "'" + text + "' has no group that is the rank",
                 .where = "--rank-pattern",
                 .remedy = "put the number in parentheses: 'worker-([0-9]+)'"};
  return names;
}

std::optional<std::uint32_t> RankNames::rank_of(const std::filesystem::path& file) const {
  if (own_) return match(file.string(), *own_);
  static const std::regex named("rank[-_=]?([0-9]{1,7})(?![0-9])", std::regex::ECMAScript | std::regex::icase);
  static const std::regex only("^([0-9]{1,7})$");
  static const std::regex last("[-_]([0-9]{1,7})$");
  const std::string stem = stem_of(file);
  if (const auto rank = match(stem, named)) return rank;
  if (const auto rank = match(stem, only)) return rank;
  for (std::filesystem::path up = file.parent_path(); up.has_filename(); up = up.parent_path())
    if (const auto rank = match(up.filename().string(), named)) return rank;
  return match(stem, last);
}

Identity identify(const Header& header, const std::filesystem::path& file, const RankNames& names) {
  Identity identity{.host = header.host, .process = header.process};
  identity.rank = names.rank_of(file);
  // memreel-HOST-PID.reel: a process, no rank.
  if (identity.rank && header.process != 0 && *identity.rank == header.process) identity.rank.reset();
  identity.coordinates = coordinates_in(file.string());
  return identity;
}

}  // namespace memreel
