#include "analyzer/fleet/name_pattern.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

namespace memreel {
namespace {

using Instruction = NamePattern::Instruction;
using Kind = Instruction::Kind;
using Set = NamePattern::Set;

constexpr std::uint32_t unlimited = ~std::uint32_t{0};

/// A part of a pattern.
struct Node {
  enum class Kind : std::uint8_t { byte, sequence, choice, repeat, group, begin, end, edge, no_edge };
  Kind kind = Kind::sequence;
  Set set;                            // byte
  std::vector<Node> parts;            // sequence, choice, repeat and group
  std::uint32_t least = 0, most = 0;  // repeat
  bool eager = true;                  // repeat
  bool is_first_group = false;        // group
};

bool is_word(unsigned char c) { return std::isalnum(c) != 0 || c == '_'; }

template <class Predicate>
Set bytes_where(const Predicate& predicate) {
  Set set;
  for (unsigned c = 0; c < 256; ++c) set[c] = predicate(static_cast<unsigned char>(c));
  return set;
}

Set any_but_line_ends() {
  return bytes_where([](unsigned char c) { return c != '\n' && c != '\r'; });
}

/// \d, \w, \s, and the same in upper case for the others. None: the letter stands for no class.
std::optional<Set> class_of(char letter) {
  std::optional<Set> set;
  switch (std::tolower(static_cast<unsigned char>(letter))) {
    case 'd':
      set = bytes_where([](unsigned char c) { return std::isdigit(c) != 0; });
      break;
    case 'w':
      set = bytes_where(is_word);
      break;
    case 's':
      set = bytes_where([](unsigned char c) { return std::isspace(c) != 0; });
      break;
    default:
      return std::nullopt;
  }
  if (std::isupper(static_cast<unsigned char>(letter)) != 0) set->flip();
  return set;
}

/// [:digit:] and the like, in brackets.
std::optional<Set> named_class(std::string_view name) {
  using Function = int (*)(int);
  static constexpr std::array<std::pair<std::string_view, Function>, 6> all{{{"alnum", std::isalnum},
                                                                             {"alpha", std::isalpha},
                                                                             {"digit", std::isdigit},
                                                                             {"punct", std::ispunct},
                                                                             {"space", std::isspace},
                                                                             {"xdigit", std::isxdigit}}};
  for (const auto& [known, function] : all)
    if (known == name) return bytes_where([f = function](unsigned char c) { return f(c) != 0; });
  return std::nullopt;
}

/// The same bytes in upper and lower case.
Set in_either_case(const Set& set) {
  return bytes_where([&](unsigned char c) {
    return set[c] || set[static_cast<unsigned char>(std::tolower(c))] ||
           set[static_cast<unsigned char>(std::toupper(c))];
  });
}

/// Recursive descent; its depth is bounded by NamePattern::longest. Where something is wrong `problem_` says what, and
/// the rest of the text is not read.
class Parser {
 public:
  explicit Parser(std::string_view text) : rest_(text) {}

  Node parse() {
    Node whole = choice();
    if (!rest_.empty()) fail("is not a regular expression");  // a parenthesis too many
    return whole;
  }
  /// Empty: the text is a regular expression.
  const std::string& problem() const { return problem_; }
  bool has_group() const { return groups_ > 0; }

 private:
  void fail(const char* problem) {
    if (problem_.empty()) problem_ = problem;
    rest_ = {};
  }
  bool take(std::string_view what) {
    if (!rest_.starts_with(what)) return false;
    rest_.remove_prefix(what.size());
    return true;
  }
  char take_one() {
    if (rest_.empty()) {
      fail("is not a regular expression");
      return '\0';
    }
    const char c = rest_.front();
    rest_.remove_prefix(1);
    return c;
  }

  Node choice() {
    Node all{.kind = Node::Kind::choice};
    do all.parts.push_back(sequence());
    while (take("|"));
    return all;
  }

  Node sequence() {
    Node all{.kind = Node::Kind::sequence};
    while (!rest_.empty() && rest_.front() != '|' && rest_.front() != ')') all.parts.push_back(repeated(atom()));
    return all;
  }

  Node group() {
    Node node{.kind = Node::Kind::sequence};
    if (rest_.starts_with("?=") || rest_.starts_with("?!") || rest_.starts_with("?<"))
      fail("looks ahead, behind or names a group, which is not supported");
    if (!take("?:")) node = {.kind = Node::Kind::group, .is_first_group = ++groups_ == 1};
    node.parts.push_back(choice());
    if (!take(")")) fail("is not a regular expression");
    return node;
  }

  Node atom() {
    const char c = take_one();
    switch (c) {
      case '(':
        return group();
      case '[':
        return bracket();
      case '.':
        return {.kind = Node::Kind::byte, .set = any_but_line_ends()};
      case '^':
        return {.kind = Node::Kind::begin};
      case '$':
        return {.kind = Node::Kind::end};
      case '\\':
        return escape();
      case '*':
      case '+':
      case '?':
      case '{':
        fail("is not a regular expression");  // nothing to repeat
        return {};
      default:
        return {.kind = Node::Kind::byte, .set = in_either_case(only(c))};
    }
  }

  static Set only(char c) { return Set().set(static_cast<unsigned char>(c)); }

  Node escape() {
    const char c = take_one();
    if (c == 'b') return {.kind = Node::Kind::edge};
    if (c == 'B') return {.kind = Node::Kind::no_edge};
    if (const auto set = class_of(c)) return {.kind = Node::Kind::byte, .set = *set};
    if (c >= '1' && c <= '9') fail("refers back to a group, which is not supported");
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) fail("has an escape that is not supported");
    return {.kind = Node::Kind::byte, .set = only(c)};
  }

  Node bracket() {
    const bool negated = take("^");
    Set set;
    while (!rest_.empty() && rest_.front() != ']') add_to(set);
    if (!take("]")) fail("is not a regular expression");
    set = in_either_case(set);
    return {.kind = Node::Kind::byte, .set = negated ? ~set : set};
  }

  /// One byte, class or range of what is in brackets.
  void add_to(Set& set) {
    if (take("[:")) {
      const std::size_t end = rest_.find(":]");
      const auto known = end == std::string_view::npos ? std::nullopt : named_class(rest_.substr(0, end));
      if (!known) return fail("has a class of characters that is not supported");
      rest_.remove_prefix(end + 2);
      set |= *known;
      return;
    }
    char from = take_one();
    if (from == '\\') {
      from = take_one();
      if (const auto known = class_of(from)) {
        set |= *known;
        return;
      }
      if (std::isalnum(static_cast<unsigned char>(from)) != 0) return fail("has an escape that is not supported");
    }
    char to = from;
    if (rest_.size() >= 2 && rest_[0] == '-' && rest_[1] != ']') {
      take_one();
      to = take_one();
      if (to == '\\') to = take_one();
    }
    if (static_cast<unsigned char>(to) < static_cast<unsigned char>(from)) return fail("is not a regular expression");
    for (unsigned c = static_cast<unsigned char>(from); c <= static_cast<unsigned char>(to); ++c) set.set(c);
  }

  std::uint32_t number() {
    std::uint32_t value = 0;
    if (rest_.empty() || std::isdigit(static_cast<unsigned char>(rest_.front())) == 0)
      fail("is not a regular expression");
    while (!rest_.empty() && std::isdigit(static_cast<unsigned char>(rest_.front())) != 0)
      value = std::min<std::uint32_t>(value * 10 + static_cast<std::uint32_t>(take_one() - '0'), 100'000);
    return value;
  }

  Node repeated(Node what) {
    Node node{.kind = Node::Kind::repeat};
    if (take("*")) {
      node.most = unlimited;
    } else if (take("+")) {
      node.least = 1;
      node.most = unlimited;
    } else if (take("?")) {
      node.most = 1;
    } else if (take("{")) {
      node.least = node.most = number();
      if (take(",")) node.most = rest_.starts_with("}") ? unlimited : number();
      if (!take("}") || node.most < node.least) fail("is not a regular expression");
    } else {
      return what;
    }
    node.eager = !take("?");
    node.parts.push_back(std::move(what));
    return node;
  }

  std::string_view rest_;
  std::string problem_;
  unsigned groups_ = 0;
};

/// Writes a pattern out as a program.
class Writer {
 public:
  Writer(std::vector<Instruction>& program, std::vector<Set>& sets) : program_(program), sets_(sets) {}

  /// False: it is too large.
  bool write(const Node& node) {
    // Parts that write nothing can be repeated, too.
    if (++steps_ > 4 * NamePattern::most_instructions || program_.size() >= NamePattern::most_instructions)
      return false;
    switch (node.kind) {
      case Node::Kind::byte:
        sets_.push_back(node.set);
        add(Kind::byte).other = static_cast<std::uint32_t>(sets_.size() - 1);
        return true;
      case Node::Kind::begin:
        add(Kind::begin);
        return true;
      case Node::Kind::end:
        add(Kind::end);
        return true;
      case Node::Kind::edge:
        add(Kind::edge);
        return true;
      case Node::Kind::no_edge:
        add(Kind::no_edge);
        return true;
      case Node::Kind::sequence:
        return write_all(node);
      case Node::Kind::group: {
        if (node.is_first_group) add(Kind::group_begin);
        const bool written = write_all(node);
        if (node.is_first_group) add(Kind::group_end);
        return written;
      }
      case Node::Kind::choice:
        return write_choice(node);
      case Node::Kind::repeat:
        return write_repeat(node);
    }
    return true;
  }

  void finish() { add(Kind::match); }

 private:
  std::uint32_t here() const { return static_cast<std::uint32_t>(program_.size()); }

  /// It goes on with what follows, unless somebody says otherwise.
  Instruction& add(Kind kind) {
    program_.push_back({.kind = kind, .next = here() + 1});
    return program_.back();
  }

  bool write_all(const Node& node) {
    return std::ranges::all_of(node.parts, [&](const Node& part) { return write(part); });
  }

  bool write_choice(const Node& node) {
    std::vector<std::uint32_t> jumps;
    for (std::size_t i = 0; i < node.parts.size(); ++i) {
      const bool is_last = i + 1 == node.parts.size();
      const std::uint32_t split = here();
      if (!is_last) add(Kind::split);
      if (!write(node.parts[i])) return false;
      if (is_last) break;
      jumps.push_back(here());
      add(Kind::jump);
      program_[split].other = here();
    }
    for (const std::uint32_t jump : jumps) program_[jump].next = here();
    return true;
  }

  /// Where a split goes that enters a repetition, and where it goes beyond it.
  void aim(std::uint32_t split, std::uint32_t into, std::uint32_t beyond, bool eager) {
    program_[split].next = eager ? into : beyond;
    program_[split].other = eager ? beyond : into;
  }

  bool write_repeat(const Node& node) {
    const Node& part = node.parts.front();
    for (std::uint32_t i = 0; i < node.least; ++i)
      if (!write(part)) return false;
    if (node.most == unlimited) {
      const std::uint32_t split = here();
      add(Kind::split);
      if (!write(part)) return false;
      add(Kind::jump).next = split;
      aim(split, split + 1, here(), node.eager);
      return true;
    }
    std::vector<std::uint32_t> splits;
    for (std::uint32_t i = node.least; i < node.most; ++i) {
      splits.push_back(here());
      add(Kind::split);
      if (!write(part)) return false;
    }
    for (const std::uint32_t split : splits) aim(split, split + 1, here(), node.eager);
    return true;
  }

  std::vector<Instruction>& program_;
  std::vector<Set>& sets_;
  std::size_t steps_ = 0;
};

Error no_pattern(std::string_view text, const std::string& problem, std::string remedy) {
  return {.what = "'" + std::string(text.substr(0, NamePattern::longest)) + "' " + problem,
          .where = "--rank-pattern",
          .remedy = std::move(remedy)};
}

}  // namespace

Result<NamePattern> NamePattern::parse(std::string_view text) {
  constexpr const char* example = "such as 'worker-([0-9]+)'";
  if (text.size() > longest)
    return Error{
        .what = "is longer than " + std::to_string(longest) + " bytes", .where = "--rank-pattern", .remedy = example};
  Parser parser(text);
  const Node whole = parser.parse();
  if (!parser.problem().empty()) return no_pattern(text, parser.problem(), example);
  if (!parser.has_group())
    return no_pattern(text, "has no group that is the rank", "put the number in parentheses: 'worker-([0-9]+)'");
  NamePattern pattern;
  Writer writer(pattern.program_, pattern.sets_);
  if (!writer.write(whole)) return no_pattern(text, "repeats too much", "repeat less often");
  writer.finish();
  return pattern;
}

/// The ways to match that are still open, in order of their priority.
class NamePattern::Search {
 public:
  Search(const NamePattern& pattern, std::string_view name)
      : pattern_(pattern), name_(name), seen_(pattern.program_.size(), 0) {}

  std::optional<std::string_view> run() {
    for (std::size_t at = 0;; ++at) {
      if (!matched_) enter({.instruction = 0}, at);
      if (matched_ && open_.empty()) break;
      std::swap(open_, current_);
      open_.clear();
      ++round_;
      for (const Way& way : current_) {
        const Instruction& instruction = pattern_.program_[way.instruction];
        if (instruction.kind == Kind::match) {
          matched_ = way;  // what comes after it has less priority
          break;
        }
        if (at < name_.size() && pattern_.sets_[instruction.other][static_cast<unsigned char>(name_[at])])
          enter({instruction.next, way.begin, way.end}, at + 1);
      }
      if (at == name_.size()) break;
    }
    if (!matched_) return std::nullopt;
    return name_.substr(matched_->begin, matched_->end - matched_->begin);
  }

 private:
  /// Where it is, and what the first group holds.
  struct Way {
    std::uint32_t instruction = 0;
    std::size_t begin = 0, end = 0;
  };

  bool is_edge(std::size_t at) const {
    const bool before = at > 0 && is_word(static_cast<unsigned char>(name_[at - 1]));
    const bool after = at < name_.size() && is_word(static_cast<unsigned char>(name_[at]));
    return before != after;
  }

  /// Follows what takes no byte, and keeps what takes one. At one place of the name each instruction is entered once:
  /// whoever comes later has less priority. Depth: the program's length.
  void enter(Way way, std::size_t at) {
    if (std::exchange(seen_[way.instruction], round_) == round_) return;
    const Instruction& instruction = pattern_.program_[way.instruction];
    const auto go_on = [&](std::uint32_t next) { enter({next, way.begin, way.end}, at); };
    switch (instruction.kind) {
      case Kind::byte:
      case Kind::match:
        open_.push_back(way);
        return;
      case Kind::split:
        go_on(instruction.next);
        go_on(instruction.other);
        return;
      case Kind::group_begin:
        way.begin = way.end = at;
        break;
      case Kind::group_end:
        way.end = at;
        break;
      case Kind::begin:
        if (at != 0) return;
        break;
      case Kind::end:
        if (at != name_.size()) return;
        break;
      case Kind::edge:
        if (!is_edge(at)) return;
        break;
      case Kind::no_edge:
        if (is_edge(at)) return;
        break;
      case Kind::jump:
        break;
    }
    go_on(instruction.next);
  }

  const NamePattern& pattern_;
  std::string_view name_;
  std::vector<std::uint64_t> seen_;  // the round in which an instruction was last entered
  std::uint64_t round_ = 1;
  std::vector<Way> open_, current_;
  std::optional<Way> matched_;
};

std::optional<std::string_view> NamePattern::first_group(std::string_view name) const {
  return Search(*this, name).run();
}

}  // namespace memreel
