// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/plan/search.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <utility>

namespace memreel::plan {
namespace {

using Row = std::uint32_t;
using Section = std::uint32_t;

constexpr Units no_end = std::numeric_limits<Units>::max() / 4;

/// The finalizer of MurmurHash3 (Appleby, public domain): every bit of the result depends on every bit of `x`.
constexpr std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 33U)) * 0xFF51AFD7ED558CCD;
  x = (x ^ (x >> 33U)) * 0xC4CEB9FE1A85EC53;
  return x ^ (x >> 33U);
}

/// The states that have failed, by Zobrist hash; a later one takes the place of an earlier one.
class FailedStates {
 public:
  /// Two hashes of a state: where it is kept, and what tells it from others kept there.
  struct Key {
    std::uint64_t place = 0, mark = 0;

    void add(std::uint64_t part) {
      const std::uint64_t hash = mixed(part + 1);
      place ^= hash;
      mark ^= mixed(hash ^ 0x9E3779B97F4A7C15);
    }
  };

  void clear(std::uint64_t most) {
    constexpr std::uint64_t largest = std::uint64_t{1} << 20U;
    marks_.assign(std::bit_ceil(std::min(most, largest)), 0);
  }
  bool has(const Key& key) const { return marks_[key.place & (marks_.size() - 1)] == (key.mark | 1); }
  void add(const Key& key) { marks_[key.place & (marks_.size() - 1)] = key.mark | 1; }

 private:
  std::vector<std::uint64_t> marks_{0};  // 0: none
};

/// A range of sections.
struct Span {
  Section first = std::numeric_limits<Section>::max(), last = 0;

  void add(const Lifetime& lifetime) {
    first = std::min(first, lifetime.first);
    last = std::max(last, lifetime.last);
  }
};

}  // namespace

Bytes SearchGraph::unit_of(const Problem& problem) {
  std::uint64_t unit = 0;
  for (const Bytes size : problem.sizes) unit = std::gcd(unit, size.count);
  return {std::max<std::uint64_t>(unit, 1)};
}

bool SearchGraph::suits(const Problem& problem) {
  // A node costs at least the sections of what is alive, so that more would be searched in vain.
  constexpr std::uint64_t most_buffers = 4000, most_sections_alive = 1'000'000;
  std::uint64_t alive = 0;
  for (Row b = 0; b < problem.count(); ++b) alive += problem.lifetimes[b].length();
  return problem.count() <= most_buffers && alive <= most_sections_alive &&
         problem.load / unit_of(problem) <= static_cast<std::uint64_t>(no_end) / 2;
}

SearchGraph::SearchGraph(const Problem& problem)
    : problem_(problem), neighbours_(problem.count()), alive_(problem.section_count), twin_(problem.count(), none) {
  const Bytes unit = unit_of(problem);
  for (const Bytes size : problem.sizes) sizes_.push_back(static_cast<Units>(size / unit));
  for (Row b = 0; b < problem.count(); ++b) {
    problem.for_each_section(b, [&](Section s) { alive_[s].push_back(b); });
    for (Row a = 0; a < b; ++a) {
      if (!problem.overlap(a, b)) continue;
      neighbours_[a].push_back(b);
      neighbours_[b].push_back(a);
      if (problem.equal(a, b)) twin_[b] = a;
    }
  }
}

class Search::State {
 public:
  explicit State(const SearchGraph& graph)
      : graph_(graph),
        problem_(graph.problem_),
        alive_(problem_.section_count),
        ways_(problem_.section_count),
        closed_(problem_.section_count),
        next_rest_(problem_.count()) {}

  Answer run(const Question& question) {
    question_ = &question;
    nodes_ = nodes_left_ = question.nodes;
    failed_.clear(4 * question.nodes);
    const Row count = problem_.count();
    rank_.resize(count);
    for (std::uint32_t i = 0; i < question.order.size(); ++i) rank_[question.order[i]] = i;
    least_.assign(count, 0);
    placed_.assign(count, false);
    open_neighbours_.resize(count);
    for (Row b = 0; b < count; ++b) open_neighbours_[b] = static_cast<std::uint32_t>(graph_.neighbours_[b].size());
    floor_.assign(problem_.section_count, 0);
    top_.assign(problem_.section_count, 0);
    left_.assign(problem_.section_count, 0);
    for (Row b = 0; b < count; ++b) problem_.for_each_section(b, [&](Section s) { left_[s] += graph_.sizes_[b]; });
    trail_.clear();
    std::vector<Row> all(count);
    std::iota(all.begin(), all.end(), 0U);
    std::ranges::sort(all, std::less{}, [&](Row b) { return std::pair{problem_.lifetimes[b].first, b}; });
    changed_ = {.first = 0, .last = problem_.section_count};
    return solve(all, std::nullopt);
  }

  const std::vector<Units>& offsets() const { return least_; }
  std::uint64_t nodes_used() const { return nodes_ - nodes_left_; }

 private:
  /// Buffers connected in time, ordered by first section, and the sections from the first to the last of them.
  struct Part {
    std::span<const Row> open;
    Span sections;
    Units height = 0;  // the highest floor with what is left above it
    FailedStates::Key key;
  };

  /// What is changed is noted in the order in which it is to be undone.
  struct Change {
    enum class Kind : std::uint8_t { floor, top, least, placement } kind = Kind::floor;
    std::uint32_t index = 0;
    Units before = 0;
  };

  Units size_of(Row b) const { return graph_.sizes_[b]; }
  Units end_of(Row b) const { return least_[b] + size_of(b); }
  Units room_above(Section s) const { return question_->capacity - floor_[s] - left_[s]; }
  bool waits_for_twin(Row b) const { return graph_.twin_[b] != SearchGraph::none && !placed_[graph_.twin_[b]]; }

  /// Places `open`, ordered by first section, after a decision about the sections `decided`. Undoes everything since
  /// then unless it returns `found`.
  Answer solve(std::span<const Row> open, std::optional<Span> decided) {
    hopeless_ = false;
    std::vector<Row> left;
    left.reserve(open.size());
    for (const Row b : open) {
      if (open_neighbours_[b] > 0) {
        left.push_back(b);
        continue;
      }
      if (end_of(b) > question_->capacity) return Answer::impossible;
      place(b);  // without an alternative: nothing remains to lie above
    }
    std::vector<Part> parts = split(left);
    for (Part& part : parts)
      if (!has_room(part) || is_known_to_fail(part)) return impossible(part, decided);
    if (parts.size() > 1) std::ranges::stable_sort(parts, std::greater{}, &Part::height);
    const std::size_t undo_to = trail_.size();
    for (const Part& part : parts) {
      const Answer answer = branch(part);
      if (answer == Answer::found) continue;
      undo(undo_to);
      if (answer == Answer::gave_up) return answer;
      failed_.add(part.key);
      return impossible(part, decided);
    }
    return Answer::found;
  }

  Answer impossible(const Part& part, const std::optional<Span>& decided) {
    hopeless_ = decided && (part.sections.last < decided->first || decided->last < part.sections.first);
    return Answer::impossible;
  }

  std::vector<Part> split(std::span<const Row> open) const {
    std::vector<Part> parts;
    for (std::size_t begin = 0, i = 0; begin < open.size(); begin = i) {
      Part part;
      part.sections.add(problem_.lifetimes[open[begin]]);
      for (i = begin + 1; i < open.size() && problem_.lifetimes[open[i]].first <= part.sections.last; ++i)
        part.sections.add(problem_.lifetimes[open[i]]);
      part.open = open.subspan(begin, i - begin);
      parts.push_back(part);
    }
    return parts;
  }

  /// Whether in every section that has changed, and for every offset, the buffers that must begin at or above it fit
  /// under the capacity.
  bool has_room(const Part& part) {
    const Section first = std::max(part.sections.first, changed_.first),
                  last = std::min(part.sections.last, changed_.last);
    if (first > last) return true;
    by_least_.clear();
    for (const Row b : part.open)
      if (problem_.lifetimes[b].overlaps({first, last})) by_least_.emplace_back(least_[b], b);
    std::ranges::sort(by_least_, std::greater{});
    std::fill(alive_.begin() + first, alive_.begin() + last + 1, 0);
    for (const auto& [least, b] : by_least_) {
      Units highest = 0;
      for (const Lifetime& piece : problem_.pieces(b))
        for (Section s = std::max(piece.first, first); s <= std::min(piece.last, last); ++s)
          highest = std::max(highest, alive_[s] += size_of(b));
      if (highest > question_->capacity - least) return false;
    }
    return true;
  }

  bool is_known_to_fail(Part& part) const {
    for (const Row b : part.open) part.key.add(b);
    for (Section s = part.sections.first; s <= part.sections.last; ++s) {
      const auto floor = static_cast<std::uint64_t>(2 * floor_[s] + (floor_[s] > top_[s] ? 1 : 0));
      part.key.add((std::uint64_t{s} + 1) << 32U | floor);
      part.height = std::max(part.height, floor_[s] + left_[s]);
    }
    return failed_.has(part.key);
  }

  /// Whether the buffer, at its least offset, would rest on another or on the ground.
  bool is_supported(Row b) const {
    if (least_[b] == 0) return true;
    bool rests = false;
    problem_.for_each_section(b, [&](Section s) { rests = rests || top_[s] == least_[b]; });
    return rests;
  }

  /// The least end of what is to be placed beside the buffer: it rests there if not where it is.
  Units next_rest(Row b) {
    Units& rest = next_rest_[b];
    if (rest != unknown) return rest;
    rest = no_end;
    for (const Row n : graph_.neighbours_[b])
      if (!placed_[n]) rest = std::min(rest, end_of(n));
    return rest;
  }

  /// The least offset at which something can begin in the section if nothing begins at its floor; any up to `enough`
  /// will do.
  Units next_level(Section s, Units enough = 0) {
    Units level = no_end;
    for (const Row b : graph_.alive_[s]) {
      if (level <= enough) return level;
      if (!placed_[b] && least_[b] > floor_[s]) level = std::min(level, least_[b]);
    }
    for (const Row b : graph_.alive_[s]) {
      if (level <= enough) return level;
      if (!placed_[b] && least_[b] <= floor_[s]) level = std::min(level, next_rest(b));
    }
    return level;
  }

  /// Tries the ways to go on with connected buffers.
  Answer branch(const Part& part) {
    changed_ = {};
    const std::optional<Section> chosen = choose(part);
    if (!chosen) return Answer::impossible;
    const Section section = *chosen;
    const Units level = room_above(section) == 0 ? no_end : next_level(section);
    std::vector<Row> next;
    for (const Row b : candidates_)
      if (problem_.alive_in(b, section)) next.push_back(b);
    std::ranges::sort(next, std::less{}, [&](Row b) { return rank_[b]; });
    const Span changed = changed_;
    std::vector<Row> rest(part.open.size() - 1);
    const auto decide = [&](const auto& change, std::span<const Row> open, const Lifetime& sections) {
      if (nodes_left_ == 0 || question_->stop()) return Answer::gave_up;
      --nodes_left_;
      const std::size_t undo_to = trail_.size();
      changed_ = changed;
      changed_.add(sections);
      change();
      const Answer answer = solve(open, Span{sections.first, sections.last});
      if (answer == Answer::impossible) undo(undo_to);
      return answer;
    };
    for (const Row b : next) {
      std::ranges::remove_copy(part.open, rest.begin(), b);
      const Answer answer = decide([&] { place(b); }, rest, problem_.lifetimes[b]);
      if (answer != Answer::impossible || hopeless_) return answer;
    }
    if (level - floor_[section] > room_above(section)) return Answer::impossible;
    return decide([&] { raise_floor(section, level); }, part.open, {section, section});
  }

  /// Raises the floors at which nothing can begin, and chooses a section. None if some section has no way to go on.
  std::optional<Section> choose(const Part& part) {
    for (;;) {
      find_candidates(part);
      std::optional<Section> best;
      std::pair<std::uint32_t, Units> least{};
      bool raised = false;
      for (Section s = part.sections.first; s <= part.sections.last && !raised; ++s) {
        if (left_[s] == 0 || closed_[s]) continue;
        const Units room = room_above(s);
        if (ways_[s] == 0) {
          const Units level = room == 0 ? no_end : next_level(s);
          if (level - floor_[s] > room) return std::nullopt;
          changed_.add({s, s});
          raise_floor(s, level);
          raised = true;
          continue;
        }
        if (best && std::pair{ways_[s], room} >= least) continue;
        const bool can_rise = room > 0 && next_level(s, floor_[s] + room) - floor_[s] <= room;
        const std::pair<std::uint32_t, Units> key{ways_[s] + (can_rise ? 1 : 0), room};
        if (best && key >= least) continue;
        best = s;
        least = key;
      }
      if (raised) continue;
      if (best && question_->branching == Branching::lowest_floor && least.first > 1) best = choose_lowest(*best);
      return best;
    }
  }

  /// Counts in `ways_` the buffers that can begin at the floor of each section, and lists them in `candidates_`; marks
  /// the sections that are not open.
  void find_candidates(const Part& part) {
    candidates_.clear();
    const auto clear = [&](auto& by_section) {
      std::fill(by_section.begin() + part.sections.first, by_section.begin() + part.sections.last + 1, 0);
    };
    clear(ways_);
    clear(closed_);
    close_slopes(part);
    for (const Row b : part.open) next_rest_[b] = unknown;
    for (const Row b : part.open) {
      Units lowest = no_end;
      problem_.for_each_section(b, [&](Section s) { lowest = std::min(lowest, floor_[s]); });
      if (lowest < least_[b]) {
        problem_.for_each_section(b, [&](Section s) { closed_[s] |= static_cast<char>(floor_[s] == least_[b]); });
      } else if (!waits_for_twin(b) && is_supported(b)) {
        candidates_.push_back(b);
        problem_.for_each_section(b, [&](Section s) { ++ways_[s]; });
      }
    }
  }

  /// Closes sections that are not in a valley, next to a lower floor: what lies there is better decided first.
  void close_slopes(const Part& part) {
    const auto [first, last] = part.sections;
    for (Section begin = first, end = first; begin <= last; begin = end) {
      for (end = begin + 1; end <= last && floor_[end] == floor_[begin];) ++end;
      const bool is_valley =
          (begin == first || floor_[begin - 1] > floor_[begin]) && (end > last || floor_[end] > floor_[begin]);
      if (!is_valley) std::fill(closed_.begin() + begin, closed_.begin() + end, 1);
    }
  }

  /// Of the candidate ranked first on the lowest floor that has any, the open section with the fewest ways.
  Section choose_lowest(Section otherwise) const {
    std::optional<Row> first;
    const auto key = [&](Row b) { return std::pair{least_[b], rank_[b]}; };
    for (const Row b : candidates_)
      if (!first || key(b) < key(*first)) first = b;
    if (!first) return otherwise;
    std::optional<Section> best;
    problem_.for_each_section(*first, [&](Section s) {
      if (!closed_[s] && (!best || ways_[s] < ways_[*best])) best = s;
    });
    return best.value_or(otherwise);
  }

  void place(Row b) {
    const Units end = end_of(b);
    placed_[b] = true;
    trail_.push_back({Change::Kind::placement, b});
    problem_.for_each_section(b, [&](Section s) {
      trail_.push_back({Change::Kind::floor, s, floor_[s]});
      trail_.push_back({Change::Kind::top, s, top_[s]});
      floor_[s] = top_[s] = end;
      left_[s] -= size_of(b);
    });
    for (const Row n : graph_.neighbours_[b]) {
      --open_neighbours_[n];
      if (!placed_[n]) raise(n, end);
    }
  }

  void raise_floor(Section s, Units level) {
    trail_.push_back({Change::Kind::floor, s, floor_[s]});
    floor_[s] = level;
    for (const Row b : graph_.alive_[s])
      if (!placed_[b]) raise(b, level);
  }

  void raise(Row b, Units least) {
    if (least_[b] >= least) return;
    trail_.push_back({Change::Kind::least, b, least_[b]});
    least_[b] = least;
    changed_.add(problem_.lifetimes[b]);
  }

  void undo(std::size_t to) {
    for (; trail_.size() > to; trail_.pop_back()) {
      const auto [kind, index, before] = trail_.back();
      switch (kind) {
        case Change::Kind::floor:
          floor_[index] = before;
          break;
        case Change::Kind::top:
          top_[index] = before;
          break;
        case Change::Kind::least:
          least_[index] = before;
          break;
        case Change::Kind::placement:
          placed_[index] = false;
          for (const Row n : graph_.neighbours_[index]) ++open_neighbours_[n];
          problem_.for_each_section(index, [&, b = index](Section s) { left_[s] += size_of(b); });
          break;
      }
    }
  }

  const SearchGraph& graph_;
  const Problem& problem_;
  const Question* question_ = nullptr;  // while run() answers it
  std::uint64_t nodes_ = 0, nodes_left_ = 0;
  FailedStates failed_;
  bool hopeless_ = false;  // the last failure does not depend on the decision before it

  std::vector<std::uint32_t> rank_;
  std::vector<Units> least_;  // by buffer: its offset if it is placed, else the least it can have
  std::vector<char> placed_;
  std::vector<std::uint32_t> open_neighbours_;  // by buffer: how many are not placed
  std::vector<Units> floor_, top_;              // by section: where the next buffer can begin; the end of the last one
  std::vector<Units> left_;                     // by section: the sizes of what is not placed
  std::vector<Change> trail_;
  Span changed_;  // the sections whose buffers have risen since has_room() was asked

  // Used within one function.
  std::vector<std::pair<Units, Row>> by_least_;
  std::vector<Units> alive_;
  std::vector<Row> candidates_;
  std::vector<std::uint32_t> ways_;
  std::vector<char> closed_;
  static constexpr Units unknown = -1;
  std::vector<Units> next_rest_;  // of next_rest()
};

Search::Search(const SearchGraph& graph) : state_(std::make_unique<State>(graph)) {}
Search::Search(Search&&) noexcept = default;
Search& Search::operator=(Search&&) noexcept = default;
Search::~Search() = default;
Search::Answer Search::run(const Question& question) { return state_->run(question); }
const std::vector<Units>& Search::offsets() const { return state_->offsets(); }
std::uint64_t Search::nodes_used() const { return state_->nodes_used(); }

}  // namespace memreel::plan
