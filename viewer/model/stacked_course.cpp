#include "viewer/model/stacked_course.h"

#include <algorithm>
#include <unordered_map>

#include "viewer/model/labels.h"

namespace memreel::viewer {
namespace {

constexpr std::uint32_t most_stretches = 1U << 16U;

}  // namespace

std::uint32_t split_key(const Document& document, std::uint32_t allocation, SplitBy by) {
  const Tables& tables = *document.tables;
  const Origin& origin = tables[document.origin_of(allocation)];
  switch (by) {
    case SplitBy::stack:
      return index(document.stack_of(allocation));
    case SplitBy::pool:
      return index(origin.pool);
    case SplitBy::stream:
      return index(origin.stream);
    case SplitBy::thread:
      return index(origin.thread);
    case SplitBy::nothing:
      break;
  }
  return 0;
}

std::optional<StackedCourse> split_course(const Document& document, const SplitQuery& query, const Progress& progress) {
  // First who the groups are: those that hold most for longest, so that no colour goes to what nobody sees.
  std::unordered_map<std::uint32_t, double> weights;
  const std::uint32_t allocations = document.allocation_count();
  for (std::uint32_t id = 0; id < allocations; ++id) {
    if (id % (1U << 16U) == 0 && progress.cancelled()) return std::nullopt;
    if (document.heap_of(document.origin_of(id)) != query.heap) continue;
    const std::uint32_t end = std::min(document.requested(id), document.event_count());
    weights[split_key(document, id, query.by)] +=
        static_cast<double>(document.size_of(id).count) * (end - document.begin_of(id));
  }
  std::vector<std::pair<double, std::uint32_t>> ranking;
  for (const auto& [key, weight] : weights) ranking.emplace_back(-weight, key);
  std::ranges::sort(ranking);
  const std::size_t named = std::min(ranking.size(), StackedCourse::most_groups);

  StackedCourse course;
  course.stride = std::max(1U, document.event_count() / most_stretches);
  std::unordered_map<std::uint32_t, std::size_t> group_of;
  for (std::size_t g = 0; g < named; ++g) {
    group_of[ranking[g].second] = g;
    course.groups.push_back(
        {.key = ranking[g].second, .label = split_label(*document.tables, ranking[g].second, query.by)});
  }
  if (ranking.size() > named) course.groups.push_back({.label = "everything else", .is_rest = true});

  std::vector<std::uint64_t> now(course.groups.size()), at_highest(course.groups.size());
  std::uint64_t total = 0, highest = 0;
  const auto group_of_allocation = [&](std::uint32_t id) {
    const auto found = group_of.find(split_key(document, id, query.by));
    return found == group_of.end() ? now.size() - 1 : found->second;
  };
  const auto see = [&](std::uint32_t id, std::uint32_t event, bool begins) {
    if (document.heap_of(document.origin_of(id)) != query.heap) return;
    const std::uint64_t size = document.size_of(id).count;
    if (begins) {
      now[group_of_allocation(id)] += size;
      total += size;
    } else if (document.requested(id) == event) {
      now[group_of_allocation(id)] -= size;
      total -= size;
    }
  };
  std::uint32_t other = 0;
  const auto others = static_cast<std::uint32_t>(document.columns.other.size());
  for (std::uint32_t e = 0; e < document.event_count(); ++e) {
    if (e % (1U << 16U) == 0) {
      if (progress.cancelled()) return std::nullopt;
      progress.set(static_cast<double>(e) / document.event_count());
    }
    if (const auto id = document.allocation_of(e)) see(*id, e, document.kind(e) == EventKind::alloc);
    for (; other < others && document.columns.other[other].at == e; ++other)
      if (const AllocationId ended = document.columns.other[other].event.allocation; ended != AllocationId::none)
        see(index(ended), e, false);
    if (total >= highest) {
      highest = total;
      at_highest = now;
    }
    if ((e + 1) % course.stride == 0 || e + 1 == document.event_count()) {
      for (std::size_t g = 0; g < now.size(); ++g) course.groups[g].bytes.push_back(at_highest[g]);
      highest = total;
      at_highest = now;
    }
  }
  return course;
}

}  // namespace memreel::viewer
