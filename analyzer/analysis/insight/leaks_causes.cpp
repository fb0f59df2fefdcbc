// SPDX-License-Identifier: Apache-2.0
// What leaks for one reason: a list of losses keeps whole graphs, and every layer's line looks like a separate leak.
#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <unordered_map>

#include "analyzer/analysis/insight/leaks.h"
#include "analyzer/describe/own_frame.h"
#include "formats/model/stack_text.h"

namespace memreel {
namespace {

/// The rounds in which allocations were made, ascending and distinct.
using Pattern = std::vector<std::uint32_t>;

/// Whether nine tenths of the rounds match.
bool is_same_pattern(const Pattern& a, const Pattern& b) {
  std::size_t both = 0;
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    both += a[i] == b[j];
    const bool step_a = a[i] <= b[j];
    const bool step_b = b[j] <= a[i];
    i += step_a;
    j += step_b;
  }
  const std::size_t either = a.size() + b.size() - both;
  return 10 * both >= 9 * either;
}

/// Finds groups that may have the same pattern without a look at all of them: in any order of rounds, two patterns of
/// which nine tenths match have a round in common among the first tenth and one of each (prefix filtering: Chaudhuri,
/// Ganti, Kaushik, "A Primitive Operator for Similarity Joins in Data Cleaning", ICDE 2006). With rare rounds first,
/// few groups are left to compare.
class PatternIndex {
 public:
  /// `count_of`: by round, how many patterns contain it.
  explicit PatternIndex(std::unordered_map<std::uint32_t, std::uint32_t> count_of) : count_of_(std::move(count_of)) {}

  void add(const LeakFinding& leader, const Pattern& pattern, std::size_t group) {
    for (const std::uint32_t round : prefix_of(pattern)) groups_[key_of(leader, round)].push_back(group);
  }

  /// In the order in which they were added.
  std::vector<std::size_t> candidates(const LeakFinding& finding, const Pattern& pattern) const {
    std::vector<std::size_t> found;
    for (const std::uint32_t round : prefix_of(pattern))
      if (const auto known = groups_.find(key_of(finding, round)); known != groups_.end())
        found.insert(found.end(), known->second.begin(), known->second.end());
    std::ranges::sort(found);
    found.erase(std::unique(found.begin(), found.end()), found.end());
    return found;
  }

 private:
  using Key = std::tuple<HeapId, GrowsWith, std::uint32_t>;
  static Key key_of(const LeakFinding& finding, std::uint32_t round) { return {finding.heap, finding.unit, round}; }

  /// A pattern without rounds matches its like.
  Pattern prefix_of(const Pattern& pattern) const {
    constexpr std::uint32_t no_round = 0xFFFF'FFFF;
    if (pattern.empty()) return {no_round};
    Pattern prefix(pattern.size() / 10 + 1, pattern.front());
    const auto rarity = [&](std::uint32_t round) { return std::pair(count_of_.at(round), round); };
    std::ranges::partial_sort_copy(pattern, prefix, {}, rarity, rarity);
    return prefix;
  }

  std::unordered_map<std::uint32_t, std::uint32_t> count_of_;
  std::map<Key, std::vector<std::size_t>> groups_;
};

/// Frames of a stack, outermost first.
std::vector<FrameId> path_of(const Tables& tables, StackId stack) {
  std::vector<FrameId> path;
  for (; stack != StackId::none; stack = tables[stack].caller) path.push_back(tables[stack].frame);
  std::reverse(path.begin(), path.end());
  return path;
}

/// Keeps the part of `path` that `other` also goes through. Functions match whatever their lines: the lines of a loop
/// body are to be grouped.
void keep_shared(const Tables& tables, std::vector<FrameId>& path, const std::vector<FrameId>& other) {
  const auto is_same_function = [&](FrameId a, FrameId b) {
    return tables[a].function == tables[b].function && tables[a].file == tables[b].file;
  };
  const auto end = std::mismatch(path.begin(), path.end(), other.begin(), other.end(), is_same_function).first;
  path.erase(end, path.end());
}

struct Group {
  std::size_t leader;
  std::vector<std::size_t> findings;
  std::vector<FrameId> shared;  // frames of the leader, outermost first
  LeakCause cause;
};

void add_to(Group& group, const Tables& tables, const LeakFinding& finding) {
  // A backward pass runs on threads without stacks of the program; that says nothing about what the others share.
  const std::vector<FrameId> path = path_of(tables, finding.stack);
  if (group.shared.empty())
    group.shared = path;
  else if (!path.empty())
    keep_shared(tables, group.shared, path);
  group.cause.bytes += finding.bytes;
  group.cause.count += finding.count;
  group.cause.growth_bytes_per_step += finding.growth_bytes_per_step;
  group.cause.unit = finding.unit;
  ++group.cause.stacks;
}

/// The cause is named after a function of its largest stack; what of the memory is from other lines of that function.
Bytes at_other_lines(const Tables& tables, const Group& group, const std::vector<LeakFinding>& findings) {
  const auto own = std::ranges::find(group.shared, group.cause.frame);
  if (own == group.shared.end()) return {};
  const auto depth = static_cast<std::size_t>(own - group.shared.begin());
  Bytes bytes;
  for (const std::size_t f : group.findings) {
    const std::vector<FrameId> path = path_of(tables, findings[f].stack);
    if (depth < path.size() && tables[path[depth]].line != tables[*own].line) bytes += findings[f].bytes;
  }
  return bytes;
}

}  // namespace

std::string place_of(const Tables& tables, const LeakCause& cause) {
  if (cause.frame == FrameId::none) return {};
  FrameText frame = frame_text(tables, cause.frame);
  if (cause.several_lines) frame.line = 0;
  return place_label(frame);
}

std::vector<LeakCause> group_by_cause(const Tables& tables, std::vector<LeakFinding>& findings,
                                      const std::vector<Pattern>& births) {
  std::vector<std::size_t> accused;
  std::unordered_map<std::uint32_t, std::uint32_t> count_of;
  for (std::size_t f = 0; f < findings.size(); ++f) {
    if (!accuses(findings[f].verdict)) continue;
    accused.push_back(f);
    for (const std::uint32_t round : births[f]) ++count_of[round];
  }
  std::ranges::stable_sort(accused, std::greater(), [&](std::size_t f) { return findings[f].bytes; });

  std::vector<Group> groups;
  PatternIndex index(std::move(count_of));
  for (const std::size_t f : accused) {
    const std::vector<std::size_t> candidates = index.candidates(findings[f], births[f]);
    const auto same = std::ranges::find_if(
        candidates, [&](std::size_t group) { return is_same_pattern(births[groups[group].leader], births[f]); });
    const std::size_t group = same != candidates.end() ? *same : groups.size();
    if (group == groups.size()) {
      groups.push_back({.leader = f, .findings = {}, .shared = {}, .cause = {}});
      index.add(findings[f], births[f], group);
    }
    groups[group].findings.push_back(f);
    add_to(groups[group], tables, findings[f]);
    findings[f].cause = static_cast<std::uint32_t>(group);
  }

  std::vector<std::uint32_t> order(groups.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::stable_sort(order, std::greater(), [&](std::uint32_t group) { return groups[group].cause.bytes; });
  std::vector<std::uint32_t> place(groups.size());
  std::vector<LeakCause> causes;
  for (std::uint32_t i = 0; i < order.size(); ++i) {
    Group& group = groups[order[i]];
    place[order[i]] = i;
    group.cause.frame = own_frame(tables, std::vector(group.shared.rbegin(), group.shared.rend()));
    group.cause.several_lines = at_other_lines(tables, group, findings) > Bytes{group.cause.bytes.count / 10};
    causes.push_back(group.cause);
  }
  for (const std::size_t f : accused) findings[f].cause = place[findings[f].cause];
  return causes;
}

}  // namespace memreel
