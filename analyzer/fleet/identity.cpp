// SPDX-License-Identifier: Apache-2.0
#include "analyzer/fleet/identity.h"

#include <re2/re2.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <limits>
#include <map>
#include <set>

#include "analyzer/describe/fields.h"
#include "analyzer/describe/markup.h"
#include "formats/model/launchers.h"

namespace memreel {
namespace {

constexpr std::size_t longest_name = 100;  // of a host or a job, in bytes: lines have no room for more

std::optional<std::uint32_t> number_of(std::string_view text) {
  std::uint32_t number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || problem != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

/// Names are bytes: file names need not be UTF-8.
RE2::Options name_options() {
  RE2::Options options;
  options.set_encoding(RE2::Options::EncodingLatin1);
  options.set_case_sensitive(false);
  options.set_log_errors(false);
  options.set_max_mem(1 << 20);
  return options;
}

/// The number in the first group of the leftmost match.
std::optional<std::uint32_t> match(const std::string& text, const RE2& pattern) {
  re2::StringPiece group;
  if (!RE2::PartialMatch(text, pattern, &group)) return std::nullopt;
  return number_of({group.data(), group.size()});
}

Error bad_pattern(std::string what, std::string remedy) {
  return {.what = "the pattern " + std::move(what), .where = "--rank-pattern", .remedy = std::move(remedy)};
}

std::string_view value_of(const Variables& environment, const char* name) {
  const auto found = name == nullptr ? environment.end() : environment.find(name);
  return found == environment.end() ? std::string_view{} : found->second;
}

/// memreel's own names: memreel-HOST-PID.reel, memreel-rank3-HOST-PID-dump-1.pickle.
void add_process(const std::filesystem::path& file, Identity& identity) {
  static const RE2 own("^memreel-(?:rank[0-9]+-)?(.+?)-([0-9]{1,7})(?:-dump-[0-9]+)?\\.", name_options());
  std::string host;
  std::uint64_t process = 0;
  if (identity.process != 0 || !RE2::PartialMatch(file.filename().string(), own, &host, &process)) return;
  identity.host = clipped(host, longest_name);
  identity.process = process;
}

/// What the innermost launcher set. One that started a single process says nothing about what that process started.
void add_place(const Variables& environment, Identity& identity) {
  const auto is_set = [&](const char* name) { return environment.contains(name); };
  for (const Launcher& launcher : launchers) {
    if (!may_have_started(launcher, is_set)) continue;
    const auto rank = number_of(value_of(environment, launcher.rank));
    const auto world = number_of(value_of(environment, launcher.world_size));
    if (!rank || *rank >= most_ranks || world == 1U) continue;
    identity.rank = rank;
    if (world && *world > *rank && *world <= most_ranks) identity.world_size = world;
    identity.local_rank = number_of(value_of(environment, launcher.local_rank));
    return;
  }
}

void add_job(const Variables& environment, Identity& identity) {
  const std::string_view array = value_of(environment, "SLURM_ARRAY_JOB_ID");
  identity.job = value_of(environment, "SLURM_JOB_ID");
  if (!array.empty())
    identity.job = std::string(array) + "_" + std::string(value_of(environment, "SLURM_ARRAY_TASK_ID"));
  // torchrun's default is "none".
  if (const auto run = value_of(environment, "TORCHELASTIC_RUN_ID"); identity.job.empty() && run != "none")
    identity.job = run;
  identity.job = clipped(identity.job, longest_name);
  for (const char* const restarts : {"SLURM_RESTART_COUNT", "TORCHELASTIC_RESTART_COUNT"})
    identity.attempt += number_of(value_of(environment, restarts)).value_or(0);
}

}  // namespace

Result<RankPattern> RankPattern::parse(const std::string& text) {
  if (text.size() > longest)
    return bad_pattern("is longer than " + std::to_string(longest) + " bytes", "use a shorter one");
  auto pattern = std::make_shared<const RE2>(text, name_options());
  if (!pattern->ok())
    return bad_pattern("is not valid: " + pattern->error(), "look-ahead and back references are not supported");
  if (pattern->NumberOfCapturingGroups() == 0)
    return bad_pattern("has no group", "put parentheses around the number: 'worker-([0-9]+)'");
  RankPattern parsed;
  parsed.pattern_ = std::move(pattern);
  return parsed;
}

std::optional<std::uint32_t> RankPattern::rank_of(const std::filesystem::path& file) const {
  if (!pattern_) return std::nullopt;
  for (std::filesystem::path part = file; part.has_filename(); part = part.parent_path())
    if (const auto rank = match(part.filename().string(), *pattern_)) return rank;
  return match(file.string(), *pattern_);
}

Identity identify(const Header& header, const std::filesystem::path& file, const RankPattern& pattern) {
  Identity identity{.host = clipped(header.host, longest_name), .process = header.process, .start = header.start};
  add_place(header.environment, identity);
  add_job(header.environment, identity);
  add_process(file, identity);
  identity.visible_devices = clipped(std::string(value_of(header.environment, "CUDA_VISIBLE_DEVICES")), longest_name);
  if (const auto named = pattern.rank_of(file)) {
    if (named != identity.rank) identity.world_size = identity.local_rank = std::nullopt;  // of another numbering
    identity.rank = named;
  }
  identity.coordinates = coordinates_in(file.string());
  return identity;
}

namespace {

using Ranks = std::vector<std::optional<std::uint32_t>>;

bool in_word(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }
bool in_number(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

struct NameNumber {
  std::uint32_t value = 0;
  std::string word;    // in front of it, without separators
  bool alone = false;  // nothing but "rank" and the number in its part of the path, or memreel's own name
};

struct Name {
  std::string rest;  // letters and '#' for each number, by directory
  std::vector<NameNumber> numbers;
};

/// The file's name without its endings: "rank3.pickle.xz" gives "rank3", "memory.rank3.pickle" gives "memory.rank3".
std::string stem_of(const std::filesystem::path& file) {
  std::string name = file.filename().string();
  for (std::size_t dot = 0; (dot = name.rfind('.')) != std::string::npos && dot > 0; name.resize(dot)) {
    const std::string_view ending = std::string_view(name).substr(dot + 1);
    if (ending != "bz2" && std::ranges::any_of(ending, in_number)) break;
  }
  return name;
}

/// How long the date or time of day at `at` is: "20261126-100947", "2026-11-26T10_09_47", "Nov_26_10_09_47". 0: none.
std::size_t length_of_date(std::string_view text, std::size_t at) {
  constexpr std::string_view months = "janfebmaraprmayjunjulaugsepoctnovdec";
  const auto fits = [&](std::string_view pattern) {  // 9: a digit, _: a separator
    if (text.size() - at < pattern.size()) return false;
    for (std::size_t i = 0; i < pattern.size(); ++i) {
      const char c = text[at + i];
      if (pattern[i] == '9' ? !in_number(c) : pattern[i] == '_' ? in_number(c) || in_word(c) : !in_word(c))
        return false;
    }
    return at + pattern.size() == text.size() || !in_number(text[at + pattern.size()]);
  };
  if (at > 0 && in_number(text[at - 1])) return 0;
  for (const std::string_view pattern : {"9999_99_99a99_99_99", "9999_99_99_99_99_99", "9999_99_99", "99999999_999999",
                                         "99999999a999999", "99999999999999"})
    if (fits(pattern)) return pattern.size();
  if (fits("99999999") && (text.substr(at, 2) == "19" || text.substr(at, 2) == "20")) return 8;
  for (const std::string_view pattern : {"aaa_99_99_99_99", "aaa_9_99_99_99", "aaa99_99_99_99", "aaa_99", "aaa_9"}) {
    const std::size_t month = fits(pattern) ? months.find(text.substr(at, 3)) : std::string_view::npos;
    if (month != std::string_view::npos && month % 3 == 0 && (at == 0 || !in_word(text[at - 1]))) return pattern.size();
  }
  return 0;
}

void add_part(std::string part, Name& name) {
  for (char& c : part) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  name.rest += '/';
  const std::size_t first = name.numbers.size(), begin = name.rest.size();
  for (std::size_t i = 0; i < part.size();) {
    if (const std::size_t date = length_of_date(part, i); date > 0) {
      i += date;
    } else if (in_word(part[i])) {
      name.rest += part[i++];
    } else if (!in_number(part[i])) {
      ++i;  // separators differ between tools
    } else {
      const std::size_t end = std::min(part.find_first_not_of("0123456789", i), part.size());
      NameNumber number{.value = std::numeric_limits<std::uint32_t>::max()};
      std::from_chars(part.data() + i, part.data() + end, number.value);
      std::size_t last = i;  // of the word in front
      while (last > 0 && !in_word(part[last - 1]) && !in_number(part[last - 1])) --last;
      std::size_t from = last;
      while (from > 0 && in_word(part[from - 1])) --from;
      number.word = part.substr(from, last - from);
      name.rest += '#';
      name.numbers.push_back(std::move(number));
      i = end;
    }
  }
  const std::string_view rest = std::string_view(name.rest).substr(begin);
  if (rest == "#") name.numbers[first].word = "r";
  if (rest == "rank#" || rest.starts_with("memreelrank#")) name.numbers[first].alone = true;
}

Name name_of(const std::filesystem::path& file) {
  Name name;
  for (const auto& part : file.parent_path()) add_part(part.string(), name);
  add_part(stem_of(file), name);
  return name;
}

/// The innermost directory that all files are in; there must be one.
std::filesystem::path shared_directory(std::span<const std::filesystem::path> files) {
  std::filesystem::path shared = files.front().parent_path();
  for (const std::filesystem::path& file : files) {
    const std::filesystem::path directory = file.parent_path();
    const auto end = std::mismatch(shared.begin(), shared.end(), directory.begin(), directory.end()).first;
    std::filesystem::path both;
    for (auto part = shared.begin(); part != end; ++part) both /= *part;
    shared = std::move(both);
  }
  return shared;
}

/// How many numbers are in the names of the directories that all files are in.
std::size_t shared_numbers(std::span<const std::filesystem::path> files) {
  Name shared;
  if (!files.empty())
    for (const auto& part : shared_directory(files)) add_part(part.string(), shared);
  return shared.numbers.size();
}

/// The number that is called a rank, from number `begin` on; of several, the last, in the file's own name.
const NameNumber* called_rank(const Name& name, std::size_t begin) {
  for (const std::string_view word : {"rank", "r"})
    for (std::size_t i = name.numbers.size(); i-- > begin;) {
      const NameNumber& number = name.numbers[i];
      if (number.value < most_ranks && (number.word == word || (word == "rank" && number.word.ends_with("globalrank"))))
        return &number;
    }
  return nullptr;
}

/// A set of ranks has few gaps: at least `share` of those up to the highest are there.
bool is_dense(const std::set<std::uint32_t>& values, double share) {
  return !values.empty() && static_cast<double>(values.size()) >= share * (static_cast<double>(*values.rbegin()) + 1);
}

/// By what is called a rank. A matrix has one too, which is the same in all names, or a power of two. A directory that
/// all files share has a rank only if no name in it has one: r2/0.reel, r2/1.reel and r2/launcher.reel are of a run.
void find_called(const std::vector<Name>& names, std::size_t shared, Ranks& ranks) {
  const bool below = std::ranges::any_of(names, [&](const Name& name) { return called_rank(name, shared) != nullptr; });
  const std::size_t begin = below ? shared : 0;
  std::set<std::uint32_t> values;
  for (const Name& name : names)
    if (const NameNumber* const number = called_rank(name, begin)) values.insert(number->value);
  const bool ranks_of_processes = values.size() > 1 && is_dense(values, 0.5);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const NameNumber* const number = called_rank(names[i], begin);
    if (number != nullptr && (ranks_of_processes || number->alone)) ranks[i] = number->value;
  }
}

/// By the only number that differs between names, or, where dates, hosts and processes do too, the only one that
/// counts them from 0.
void find_counted(const std::vector<Name>& names, const std::vector<std::size_t>& alike, Ranks& ranks) {
  const std::size_t numbers = names[alike.front()].numbers.size();
  std::optional<std::size_t> found;
  std::size_t differing = 0, counting = 0;
  for (std::size_t n = 0; n < numbers; ++n) {
    std::set<std::uint32_t> values;
    for (const std::size_t i : alike) values.insert(names[i].numbers[n].value);
    if (values.size() == 1) continue;
    ++differing;
    if (values.size() != alike.size() || *values.rbegin() + 1 != alike.size()) continue;
    ++counting;
    found = n;
  }
  if (differing == 0 || counting != 1) return;
  for (const std::size_t i : alike) ranks[i] = names[i].numbers[*found].value;
}

}  // namespace

std::vector<std::optional<std::uint32_t>> ranks_in_names(std::span<const std::filesystem::path> files) {
  std::vector<Name> names;
  names.reserve(files.size());
  for (const std::filesystem::path& file : files) names.push_back(name_of(file));
  Ranks ranks(files.size());
  find_called(names, shared_numbers(files), ranks);
  std::map<std::string, std::vector<std::size_t>> alike;
  for (std::size_t i = 0; i < names.size(); ++i)
    if (!ranks[i]) alike[names[i].rest].push_back(i);
  for (const auto& [rest, group] : alike)
    if (group.size() > 1) find_counted(names, group, ranks);
  return ranks;
}

std::string name_without_numbers(const std::filesystem::path& file) { return name_of(file).rest; }

namespace {

constexpr std::uint64_t largest_mesh = 1U << 20U;
// Axis names of Megatron, DeepSpeed, torchtitan and vLLM.
constexpr std::array<std::string_view, 8> known_axes{"pp", "dp", "tp", "cp", "ep", "sp", "fsdp", "stage"};

bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }
bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

Error no_mesh(std::string_view text) {
  return {.what = "'" + std::string(text) + "' is not a mesh", .where = "--mesh", .remedy = "such as pp=4,dp=4"};
}

}  // namespace

Result<Mesh> Mesh::parse(std::string_view text) {
  Mesh mesh;
  std::uint64_t ranks = 1;
  for (std::string_view rest = text;;) {
    const std::size_t comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    const std::size_t equals = part.find('=');
    if (equals == 0 || equals == std::string_view::npos) return no_mesh(text);
    Axis axis{.name = std::string(part.substr(0, equals))};
    const std::string_view number = part.substr(equals + 1);
    const auto [end, problem] = std::from_chars(number.data(), number.data() + number.size(), axis.size);
    if (problem != std::errc{} || end != number.data() + number.size() || axis.size == 0) return no_mesh(text);
    if (std::ranges::find(mesh.axes_, axis.name, &Axis::name) != mesh.axes_.end()) return no_mesh(text);
    ranks *= axis.size;
    if (ranks > largest_mesh) return no_mesh(text);
    mesh.axes_.push_back(std::move(axis));
    if (comma == std::string_view::npos) return mesh;
    rest.remove_prefix(comma + 1);
  }
}

std::uint32_t Mesh::size() const {
  std::uint32_t size = 1;
  for (const Axis& axis : axes_) size *= axis.size;
  return size;
}

std::vector<Coordinate> Mesh::coordinates(std::uint32_t rank) const {
  std::vector<Coordinate> at(axes_.size());
  for (std::size_t i = axes_.size(); i-- > 0; rank /= axes_[i].size)
    at[i] = {.axis = axes_[i].name, .at = rank % axes_[i].size};
  return at;
}

std::optional<std::uint32_t> Mesh::rank_at(std::span<const Coordinate> coordinates) const {
  std::uint32_t rank = 0;
  for (const Axis& axis : axes_) {
    const auto found = std::ranges::find(coordinates, axis.name, &Coordinate::axis);
    if (found == coordinates.end() || found->at >= axis.size) return std::nullopt;
    rank = rank * axis.size + found->at;
  }
  return rank;
}

std::vector<Coordinate> coordinates_in(std::string_view path) {
  std::vector<Coordinate> found;
  for (std::size_t i = 0; i < path.size();) {
    if (!is_letter(path[i])) {
      ++i;
      continue;
    }
    std::size_t end = i;
    while (end < path.size() && is_letter(path[end])) ++end;
    std::string word(path.substr(i, end - i));
    std::ranges::transform(word, word.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    i = end;
    const bool known = std::ranges::find(known_axes, word) != known_axes.end();
    if (known && end < path.size() && (path[end] == '_' || path[end] == '-' || path[end] == '=')) ++end;
    std::uint32_t number = 0;
    if (!known || end >= path.size() || !is_digit(path[end])) continue;
    std::from_chars(path.data() + end, path.data() + path.size(), number);
    // The innermost directory, or the file, takes precedence.
    const auto same = std::ranges::find(found, word, &Coordinate::axis);
    if (same != found.end())
      same->at = number;
    else
      found.push_back({.axis = std::move(word), .at = number});
  }
  return found;
}

}  // namespace memreel
