#include "analyzer/report/live_groups.h"

#include <algorithm>
#include <array>
#include <map>

#include "analyzer/report/labels.h"
#include "analyzer/report/own_frame.h"
#include "formats/model/origin_text.h"

namespace memreel {
namespace {

constexpr std::array<std::string_view, 8> names{"stack",  "line",   "function", "module",
                                                "thread", "stream", "pool",     "device"};

std::string stack_label(const Tables& tables, StackId stack, GroupBy by) {
  const std::vector<FrameText> frames = frames_of(tables, stack);
  if (frames.empty()) return "(no stack)";
  const FrameText own = own_frame(frames);
  switch (by) {
    case GroupBy::function:
      return std::string(own.function);
    case GroupBy::module: {
      const std::string& path = tables[tables[frames.front().module].path];
      return path.empty() ? std::string(own.file) : path;
    }
    case GroupBy::line:
      return line_label(own);
    default:
      return text_of(own);
  }
}

std::string origin_label(const Tables& tables, const Origin& origin, GroupBy by) {
  switch (by) {
    case GroupBy::thread: {
      const Thread& thread = tables[origin.thread];
      if (origin.thread == ThreadId::unknown) return "not recorded";
      return tables[thread.name].empty() ? std::to_string(thread.tid) : tables[thread.name];
    }
    case GroupBy::stream:
      return stream_label(tables, origin.stream);
    case GroupBy::pool:
      return pool_label(tables, origin.pool);
    default:
      return "device " + std::to_string(tables[origin.heap].device);
  }
}

bool is_by_stack(GroupBy by) {
  return by == GroupBy::stack || by == GroupBy::line || by == GroupBy::function || by == GroupBy::module;
}

}  // namespace

std::optional<GroupBy> group_by_name(std::string_view name) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return std::nullopt;
  return static_cast<GroupBy>(found - names.begin());
}

std::string_view name_of(GroupBy by) { return names.at(static_cast<std::size_t>(by)); }

std::vector<std::string_view> group_by_names() { return {names.begin(), names.end()}; }

std::vector<LiveGroup> live_groups(const Trace& trace, const std::vector<Lifetime>& lives, HeapId heap,
                                   std::uint64_t events, GroupBy by) {
  // First by the id that decides the label, so that each label is made once and not once per allocation.
  struct Part {
    Bytes bytes;
    std::vector<AllocationId> allocations;
    StackId stack = StackId::none;
  };
  std::map<std::uint32_t, Part> parts;
  for (std::uint32_t a = 0; a < lives.size(); ++a) {
    if (!lives[a].live_after(events)) continue;
    const OriginId origin = trace.events.origin[lives[a].begin];
    if (trace.tables[origin].heap != heap) continue;
    const StackId stack = trace.events.stack[lives[a].begin];
    Part& part = parts[is_by_stack(by) ? index(stack) : index(origin)];
    part.bytes += trace.events.size[lives[a].begin];
    part.allocations.push_back(AllocationId{a});
    if (part.stack == StackId::none) part.stack = stack;
  }

  std::vector<LiveGroup> groups;
  std::map<std::string, std::size_t> by_label;
  std::vector<Bytes> largest_part;
  for (auto& [key, part] : parts) {
    std::string label = is_by_stack(by) ? stack_label(trace.tables, part.stack, by)
                                        : origin_label(trace.tables, trace.tables[OriginId{key}], by);
    // Two different stacks can read the same in one line; they stay two groups.
    const std::string group_key = by == GroupBy::stack ? std::to_string(key) : label;
    const auto [position, is_new] = by_label.try_emplace(group_key, groups.size());
    if (is_new) {
      groups.push_back({.label = std::move(label)});
      largest_part.emplace_back();
    }
    LiveGroup& group = groups[position->second];
    group.bytes += part.bytes;
    group.count += part.allocations.size();
    group.allocations.insert(group.allocations.end(), part.allocations.begin(), part.allocations.end());
    if (Bytes& largest = largest_part[position->second]; part.bytes >= largest) {
      largest = part.bytes;
      group.stack = part.stack;
    }
  }
  for (LiveGroup& group : groups) std::sort(group.allocations.begin(), group.allocations.end());
  std::sort(groups.begin(), groups.end(), [](const LiveGroup& a, const LiveGroup& b) {
    if (a.bytes != b.bytes) return a.bytes > b.bytes;
    return a.label != b.label ? a.label < b.label : a.allocations < b.allocations;
  });
  return groups;
}

}  // namespace memreel
