#include "analyzer/insight/leaks_causes.h"

#include <algorithm>
#include <numeric>

#include "analyzer/report/own_frame.h"
#include "formats/model/stack_text.h"

namespace memreel {
namespace {

bool is_same_pattern(const std::vector<std::uint32_t>& a, const std::vector<std::uint32_t>& b) {
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

}  // namespace

std::vector<LeakCause> group_by_cause(const Tables& tables, std::vector<LeakFinding>& findings,
                                      const std::vector<std::vector<std::uint32_t>>& births) {
  struct Group {
    std::size_t leader;
    std::vector<FrameId> shared;  // frames of the leader, outermost first
    LeakCause cause;
  };
  std::vector<std::size_t> accused;
  for (std::size_t f = 0; f < findings.size(); ++f) {
    if (accuses(findings[f].verdict)) accused.push_back(f);
  }
  std::stable_sort(accused.begin(), accused.end(),
                   [&](std::size_t a, std::size_t b) { return findings[a].bytes > findings[b].bytes; });
  std::vector<Group> groups;
  for (const std::size_t f : accused) {
    LeakFinding& finding = findings[f];
    auto group = std::find_if(groups.begin(), groups.end(), [&](const Group& g) {
      return findings[g.leader].heap == finding.heap && is_same_pattern(births[g.leader], births[f]);
    });
    const std::vector<FrameId> path = path_of(tables, finding.stack);
    if (group == groups.end()) group = groups.insert(groups.end(), Group{.leader = f, .shared = path, .cause = {}});
    // A backward pass runs on threads without stacks of the program; that says nothing about what the others share.
    if (group->shared.empty())
      group->shared = path;
    else if (!path.empty())
      keep_shared(tables, group->shared, path);
    group->cause.bytes += finding.bytes;
    group->cause.count += finding.count;
    group->cause.growth_bytes_per_interval += finding.growth_bytes_per_interval;
    ++group->cause.stacks;
    finding.cause = static_cast<std::uint32_t>(group - groups.begin());
  }

  std::vector<std::uint32_t> order(groups.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return groups[a].cause.bytes > groups[b].cause.bytes; });
  std::vector<std::uint32_t> place(groups.size());
  std::vector<LeakCause> causes;
  for (std::uint32_t i = 0; i < order.size(); ++i) {
    Group& group = groups[order[i]];
    place[order[i]] = i;
    group.cause.frame = own_frame(tables, std::vector(group.shared.rbegin(), group.shared.rend()));
    causes.push_back(group.cause);
  }
  for (const std::size_t f : accused) findings[f].cause = place[findings[f].cause];
  return causes;
}

}  // namespace memreel
