// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/explain/failure.h"

#include <re2/re2.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace memreel::explain {
namespace {

constexpr std::array<KindText, 15> kind_texts{{
    {Kind::lack, "lack", "lack of memory"},
    {Kind::fragmentation, "fragmentation", "fragmentation"},
    {Kind::larger_than_device, "larger_than_device", "larger than the device"},
    {Kind::other_process, "other_process", "memory held outside this program's allocator"},
    {Kind::own_limit, "own_limit", "the program's own limit"},
    {Kind::private_pool, "private_pool", "memory cached in a private pool"},
    {Kind::refused_though_free, "refused_though_free", "refused although free"},
    {Kind::engine_budget, "engine_budget", "the engine's own budget"},
    {Kind::host_memory, "host_memory", "host memory, not the GPU's"},
    {Kind::not_device_memory, "not_device_memory", "on-chip memory, not the GPU's main memory"},
    {Kind::nonsense_size, "nonsense_size", "a size that no machine has"},
    {Kind::warning, "warning", "only a warning"},
    {Kind::contradictory, "contradictory", "figures that contradict each other"},
    {Kind::figures_missing, "figures_missing", "not decided: figures are missing"},
    {Kind::no_figures, "no_figures", "not decided: the text has no figures"},
}};

constexpr std::array<std::string_view, field_count> field_names{
    "requested",   "needed",    "capacity", "free",      "live",   "cached", "pools",
    "reserved",    "in_use",    "others",   "limit",     "used",   "budget", "weights",
    "activations", "non_torch", "kv_cache", "kv_needed", "device", "length", "fitting"};

}  // namespace

const KindText& text_of(Kind kind) { return *std::ranges::find(kind_texts, kind, &KindText::kind); }

std::vector<KindText> all_kinds() { return {kind_texts.begin(), kind_texts.end()}; }

std::string_view name_of(Field field) { return field_names[static_cast<std::size_t>(field)]; }

std::optional<Field> field_named(std::string_view name) {
  const auto found = std::ranges::find(field_names, name);
  if (found == field_names.end()) return std::nullopt;
  return static_cast<Field>(found - field_names.begin());
}

bool Figures::empty() const {
  return std::ranges::none_of(values_, [](const auto& value) { return value.has_value(); });
}

namespace {

constexpr std::string_view number = R"(-?\d[\d,]*(?:\.\d+)?)";
// A letter alone is a unit only if no word begins with it.
constexpr std::string_view unit = R"((?:[kmgtpe]i?b|[kmgt]\b|bytes?|b\b)?)";

RE2::Options expression_options() {
  RE2::Options options;
  options.set_encoding(RE2::Options::EncodingLatin1);  // a log is bytes
  options.set_case_sensitive(false);
  options.set_dot_nl(true);
  options.set_log_errors(false);
  options.set_max_mem(4 << 20);
  return options;
}

/// The additions of Grammar's expressions, in RE2's own terms. A field's group is named after it; "free_GiB" has the
/// unit that its number lacks.
std::string translated(std::string_view expression) {
  std::string out;
  for (std::size_t at = 0; at < expression.size(); ++at) {
    if (expression[at] == ' ') {
      out += R"(\s*)";
    } else if (expression[at] == '{' && at + 1 < expression.size() && expression[at + 1] >= 'a') {
      const std::size_t end = expression.find('}', at);
      std::string_view field = expression.substr(at + 1, end - at - 1);
      at = end;
      if (const std::size_t colon = field.find(':'); colon != std::string_view::npos) {
        out += "(?P<" + std::string(field.substr(0, colon)) + ">" + std::string(field.substr(colon + 1)) + ")";
      } else if (const std::size_t tilde = field.find('~'); tilde != std::string_view::npos) {
        out += "(?P<" + std::string(field.substr(0, tilde)) + "_" + std::string(field.substr(tilde + 1)) + ">" +
               std::string(number) + ")";
      } else if (field.ends_with('#')) {
        out += "(?P<" + std::string(field.substr(0, field.size() - 1)) + R"(>\d[\d,]*))";
      } else {
        out += "(?P<" + std::string(field) + ">" + std::string(number) + R"(\s*)" + std::string(unit) + ")";
      }
    } else {
      out += expression[at];
    }
  }
  return out;
}

/// Whether the number's only comma is its decimal point, as a program prints it in many locales: "1900,00", not
/// "1,073,741,824" and not "1,024.00".
bool has_decimal_comma(std::string_view number) {
  const std::size_t comma = number.find(',');
  return comma != std::string_view::npos && number.find_first_of(",.", comma + 1) == std::string_view::npos &&
         number.size() - comma - 1 != 3;
}

/// Frameworks print powers of 1024, whichever unit they name. Negative sizes are 0, those beyond 2^63 are 2^63.
std::uint64_t bytes_of(std::string_view text, std::string_view missing_unit) {
  std::string digits(text.substr(0, std::min(text.find_first_not_of("-.,0123456789"), text.size())));
  const std::size_t at = digits.size();
  if (has_decimal_comma(digits)) digits[digits.find(',')] = '.';
  std::erase(digits, ',');
  double value = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), value);
  std::string_view unit_text = text.substr(at);
  unit_text.remove_prefix(std::min(unit_text.find_first_not_of(" \t\r\n"), unit_text.size()));
  if (unit_text.empty()) unit_text = missing_unit;
  constexpr std::string_view prefixes = "kmgtpe";
  const std::size_t power =
      unit_text.empty() ? std::string_view::npos : prefixes.find(static_cast<char>(unit_text[0] | 0x20));
  if (power != std::string_view::npos) value = std::ldexp(value, 10 * static_cast<int>(power + 1));
  constexpr double most = 9223372036854775808.0;
  if (!(value > 0)) return 0;
  return value >= most ? std::uint64_t{1} << 63U : static_cast<std::uint64_t>(std::llround(value));
}

/// The first value of a field counts: a text that repeats itself says the same again.
void store(Failure& failure, const std::string& group, std::string_view text) {
  std::string_view name = group;
  std::string_view missing_unit;
  if (name.ends_with("_GiB") || name.ends_with("_MiB") || name.ends_with("_KiB")) {
    missing_unit = name.substr(name.size() - 3);
    name.remove_suffix(4);
  }
  if (name == "process") {
    constexpr std::size_t most_processes = 256;
    if (failure.processes.size() < most_processes) failure.processes.push_back(bytes_of(text, missing_unit));
  } else if (const std::optional<Field> field = field_named(name)) {
    if (!failure.figures[*field]) failure.figures[*field] = bytes_of(text, missing_unit);
  } else if (constexpr std::size_t longest = 80; !failure.words.contains(group)) {
    failure.words.emplace(group, std::string(text.substr(0, longest)));
  }
}

/// All groups of the next match in `text`; false if there is none.
bool match_groups(const re2::RE2& expression, re2::StringPiece text, Failure& failure, const char*& end) {
  const int groups = expression.NumberOfCapturingGroups();
  std::vector<re2::StringPiece> found(static_cast<std::size_t>(groups) + 1);
  if (!expression.Match(text, 0, text.size(), RE2::UNANCHORED, found.data(), groups + 1)) return false;
  for (const auto& [group, name] : expression.CapturingGroupNames()) {
    const re2::StringPiece& piece = found[static_cast<std::size_t>(group)];
    if (!piece.empty()) store(failure, name, {piece.data(), piece.size()});
  }
  end = found[0].data() + found[0].size();
  return true;
}

}  // namespace

std::vector<const Grammar*> all_texts() {
  std::vector<const Grammar*> all;
  for (const auto texts : {torch_texts(), engine_texts(), xla_texts(), rapids_texts(), library_texts(), runtime_texts(),
                           host_texts(), graphics_texts(), driver_texts()})
    for (const Grammar& grammar : texts) all.push_back(&grammar);
  return all;
}

Matcher::Matcher(const Grammar& grammar)
    : grammar_(&grammar), head_(std::make_unique<re2::RE2>(translated(grammar.head), expression_options())) {
  for (const std::string_view clause : grammar.clauses)
    clauses_.push_back(std::make_unique<re2::RE2>(translated(clause), expression_options()));
}
Matcher::Matcher(Matcher&&) noexcept = default;
Matcher& Matcher::operator=(Matcher&&) noexcept = default;
Matcher::~Matcher() = default;

bool Matcher::find(std::string_view text, std::size_t from, std::size_t& begin, std::size_t& end) const {
  re2::StringPiece found;
  if (from > text.size() || !head_->Match({text.data(), text.size()}, from, text.size(), RE2::UNANCHORED, &found, 1) ||
      found.empty())
    return false;
  begin = static_cast<std::size_t>(found.data() - text.data());
  end = begin + found.size();
  return true;
}

std::size_t Matcher::read(std::string_view text, std::size_t begin, std::size_t limit, Failure& failure) const {
  const re2::StringPiece extent(text.data() + begin, limit - begin);
  const char* last = extent.data();
  match_groups(*head_, extent, failure, last);
  const char* end = last;
  for (const auto& clause : clauses_) {
    re2::StringPiece rest(last, static_cast<std::size_t>(extent.data() + extent.size() - last));
    const bool repeats =
        clause->CapturingGroupNames().size() == 1 && clause->CapturingGroupNames().begin()->second == "process";
    for (const char* next = nullptr; match_groups(*clause, rest, failure, next);) {
      end = std::max(end, next);
      rest.remove_prefix(static_cast<std::size_t>(next - rest.data()));
      if (!repeats) break;
    }
  }
  return static_cast<std::size_t>(end - text.data());
}

std::string expression_for_keys() {
  std::vector<std::string_view> keys;
  for (const Grammar* grammar : all_texts()) keys.push_back(grammar->key);
  std::ranges::sort(keys);
  keys.erase(std::ranges::unique(keys).begin(), keys.end());
  std::string out;
  for (const std::string_view key : keys) {
    out += out.empty() ? "" : "|";
    for (const char letter : key) {
      out += re2::RE2::QuoteMeta(std::string(1, letter));
      if (letter != key.back() || &letter != &key.back()) out += R"([\s\x7f]*)";
    }
  }
  return out;
}

}  // namespace memreel::explain
