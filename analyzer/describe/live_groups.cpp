// SPDX-License-Identifier: Apache-2.0
#include "analyzer/describe/live_groups.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>

#include "analyzer/analysis/category/communicators.h"
#include "analyzer/describe/own_frame.h"
#include "formats/model/frame_kind.h"
#include "formats/model/stack_text.h"

namespace memreel {

// The hues of Okabe and Ito for the categories that are largest in most programs; the others are chosen so that no two
// look alike to people with colour vision deficiencies. Red is for leaks and failures.
std::span<const CategoryStyle> category_styles() {
  static constexpr std::array<CategoryStyle, category_count> styles{{
      {Category::parameter, 0x0072b2, 0x0072b2},
      {Category::buffer, 0x8a80e0, 0x8a80e0},
      {Category::parameter_copy, 0x2f36d8, 0x2f36d8},
      {Category::optimizer_state, 0xe69f00, 0xe69f00},
      {Category::gradient, 0x009e73, 0x009e73},
      {Category::kv_cache, 0xcc79a7, 0xcc79a7},
      {Category::graph_pool, 0x774d1a, 0x8d5f26},
      {Category::workspace, 0xa6e487, 0xa6e487},
      {Category::communication, 0x7a1078, 0x7a1078},
      {Category::input, 0xf0e442, 0xf0e442},
      {Category::activation, 0x56b4e9, 0x56b4e9},
      {Category::temporary, 0x6d757f, 0x747c86},
      {Category::unknown, 0xc3c8cd, 0x565c65},
  }};
  return styles;
}

std::string css_colours(bool dark) {
  std::string css;
  for (const CategoryStyle& style : category_styles()) {
    std::array<char, 8> rgb{};
    std::snprintf(rgb.data(), rgb.size(), "#%06x", (dark ? style.on_dark : style.on_light) & 0xffffffU);
    css += "--" + std::string(name_of(style.category)) + ":" + rgb.data() + ";";
  }
  return css;
}

std::string css_colour(Category category) { return "var(--" + std::string(name_of(category)) + ")"; }

namespace {

struct Tally {
  Bytes bytes;
  std::uint64_t count = 0;
  std::map<Evidence, Bytes> by_evidence;
  std::map<StackId, Bytes> by_stack;
};

std::vector<CategoryShare::Holder> holders_of(const Trace& trace, const Categories& categories, const Tally& tally) {
  std::map<std::string, Bytes> by_label;
  for (const auto& [stack, bytes] : tally.by_stack) {
    by_label[holder_label(trace.tables, categories, stack)] += bytes;
  }
  std::vector<CategoryShare::Holder> holders;
  for (const auto& [label, bytes] : by_label) holders.push_back({label_in(trace, label), bytes});
  std::ranges::stable_sort(holders, std::ranges::greater{}, &CategoryShare::Holder::bytes);
  return holders;
}

}  // namespace

FrameText holder_frame(const Tables& tables, const Categories& categories, StackId stack) {
  const FrameText layer = layer_frame(tables, categories.stacks(), stack);
  if (!layer.file.empty()) return layer;
  const std::vector<FrameText> frames = frames_of(tables, stack);
  return frames.empty() ? FrameText{.function = no_stack_label} : explaining_frame(frames);
}

std::string holder_label(const Tables& tables, const Categories& categories, StackId stack) {
  return short_label(holder_frame(tables, categories, stack));
}

std::string label_in(const Trace& trace, std::string label) {
  return label == preexisting_frame && !has_history(trace) ? std::string(no_stack_label) : label;
}

std::vector<CategoryShare> category_shares(const Trace& trace, const std::vector<Lifetime>& lives,
                                           const Categories& categories, HeapId heap, std::uint64_t events) {
  std::array<Tally, category_count> tallies;
  for (std::uint32_t a = 0; a < lives.size(); ++a) {
    if (!lives[a].live_after(events)) continue;
    const std::uint32_t begin = lives[a].begin;
    if (trace.tables[trace.events.origin(begin)].heap != heap) continue;
    Tally& tally = tallies.at(static_cast<std::size_t>(categories.category(AllocationId{a})));
    const Bytes size = trace.events.size(begin);
    tally.bytes += size;
    ++tally.count;
    tally.by_evidence[categories.evidence[a]] += size;
    tally.by_stack[trace.events.stack(begin)] += size;
  }
  std::vector<CategoryShare> shares;
  for (std::size_t c = 0; c < category_count; ++c) {
    const Tally& tally = tallies.at(c);
    if (tally.count == 0) continue;
    const auto most = std::ranges::max_element(tally.by_evidence, {}, [](const auto& entry) { return entry.second; });
    shares.push_back({.category = static_cast<Category>(c),
                      .bytes = tally.bytes,
                      .count = tally.count,
                      .evidence = most->first,
                      .holders = holders_of(trace, categories, tally)});
  }
  std::ranges::stable_sort(shares, std::ranges::greater{}, &CategoryShare::bytes);
  return shares;
}

bool says_something(std::span<const CategoryShare> shares) {
  return std::ranges::any_of(shares, [](const CategoryShare& share) { return share.category != Category::unknown; });
}

namespace {

constexpr std::array<std::string_view, 14> names{"stack", "line",     "function", "module", "library",
                                                 "layer", "category", "phase",    "thread", "stream",
                                                 "pool",  "device",   "metadata", "tag"};

/// What determines the label of a group, so that each label is built once and not once per allocation.
enum class Key : std::uint8_t { stack, layer, library, origin, category, phase, tag };

Key key_of(GroupBy by) {
  switch (by) {
    case GroupBy::layer:
      return Key::layer;
    case GroupBy::library:
      return Key::library;
    case GroupBy::category:
      return Key::category;
    case GroupBy::phase:
      return Key::phase;
    case GroupBy::tag:
      return Key::tag;
    case GroupBy::thread:
    case GroupBy::stream:
    case GroupBy::pool:
    case GroupBy::device:
    case GroupBy::metadata:
      return Key::origin;
    default:
      return Key::stack;
  }
}

std::string layer_label(const Tables& tables, const Categories& categories, StackId stack, std::uint32_t call) {
  std::string path = layer_path(tables, categories, stack, static_cast<std::uint16_t>(call));
  return path.empty() ? "(in no module)" : path;
}

std::string library_label(const Tables& tables, const Communicators& communicators, StackId stack,
                          std::uint32_t communicator) {
  const std::vector<FrameText> frames = frames_of(tables, stack);
  if (frames.empty()) return std::string(no_stack_label);
  if (communicator == 0) return library_label(frames);
  const StackId caller = communicators.list[communicator - 1].caller;
  return library_label(frames) + ", communicator " + std::to_string(communicator) +
         (caller == StackId::none ? "" : " (" + line_label(explaining_frame(frames_of(tables, caller))) + ")");
}

/// The ranges that were open in the thread of each allocation.
class Tags {
 public:
  explicit Tags(const Trace& trace) : tables_(trace.tables) {
    const Events& events = trace.events;
    for (std::size_t i = 0; i < events.count(); ++i) {
      if (events.kind(i) == EventKind::alloc) {
        const auto open = open_.find(tables_[events.origin(i)].thread);
        of_.push_back(open == open_.end() || open->second.empty() ? none : open->second.back());
      } else if (events.kind(i) == EventKind::mark && events.address_or_value(i) < tables_.marks.size()) {
        see(tables_.marks[events.address_or_value(i)], open_[tables_[events.origin(i)].thread]);
      }
    }
  }

  std::uint32_t of(std::uint32_t allocation) const { return of_[allocation]; }

  std::string label(std::uint32_t tag) const {
    if (tag == none) return "(no tag)";
    std::string path;
    for (; tag != none; tag = nodes_[tag].outer) path = tables_[nodes_[tag].name] + (path.empty() ? "" : " > " + path);
    return path;
  }

 private:
  static constexpr std::uint32_t none = 0xFFFF'FFFF;
  using Open = std::vector<std::uint32_t>;  // nodes, outermost first

  struct Node {
    std::uint32_t outer = none;
    StringId name = StringId::none;
  };

  void see(const Mark& mark, Open& open) {
    constexpr std::size_t deepest = 64;
    if (mark.phase == MarkPhase::begin) {
      const std::uint32_t outer = open.empty() ? none : open.back();
      if (open.size() == deepest) return;
      const auto [found, is_new] = rows_.try_emplace({outer, mark.name}, static_cast<std::uint32_t>(nodes_.size()));
      if (is_new) nodes_.push_back({.outer = outer, .name = mark.name});
      open.push_back(found->second);
    } else if (mark.phase == MarkPhase::end) {  // of one that began before the recording: none
      const auto last =
          std::find_if(open.rbegin(), open.rend(), [&](std::uint32_t node) { return nodes_[node].name == mark.name; });
      if (last != open.rend()) open.erase(std::prev(last.base()));
    }
  }

  const Tables& tables_;
  std::vector<Node> nodes_;
  std::map<std::pair<std::uint32_t, StringId>, std::uint32_t> rows_;
  std::map<ThreadId, Open> open_;
  std::vector<std::uint32_t> of_;  // by allocation
};

std::string function_label(const FrameText& frame) { return display_name(frame.kind, frame.function); }

std::string stack_label(const Tables& tables, StackId stack, GroupBy by) {
  const std::vector<FrameText> frames = frames_of(tables, stack);
  if (frames.empty()) return std::string(no_stack_label);
  switch (by) {
    case GroupBy::function:
      return function_label(explaining_frame(frames));
    case GroupBy::module: {
      const std::string& path = tables[tables[frames.front().module].path];
      return path.empty() ? std::string(own_frame(frames).file) : path;
    }
    case GroupBy::line:
      return line_label(explaining_frame(frames)) + compiled_label(frames);
    default:
      return place_label(explaining_frame(frames));
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
    case GroupBy::metadata:
      return origin.metadata == StringId::none ? "(no metadata)" : tables[origin.metadata];
    default:
      return "device " + std::to_string(tables[origin.heap].device);
  }
}

/// The groups of one grouping, by what their labels depend on.
class Grouping {
 public:
  using PartKey = std::pair<std::uint32_t, std::uint32_t>;  // an id, and what else the label depends on

  Grouping(const Trace& trace, const Categories& categories, GroupBy by)
      : trace_(trace), categories_(categories), by_(by), kind_(key_of(by)) {
    if (kind_ == Key::stack || kind_ == Key::library) code_ = same_code(trace.tables);
    if (kind_ == Key::library) communicators_ = find_communicators(trace);
    if (kind_ == Key::tag) tags_.emplace(trace);
  }

  PartKey key(std::uint32_t allocation, OriginId origin, StackId stack) const {
    switch (kind_) {
      case Key::stack:
        return {index(code_[index(stack)]), 0};
      case Key::layer:
        return {index(stack), categories_.calls.of(allocation)};
      case Key::library:
        return {index(code_[index(stack)]), communicators_.of(allocation)};
      case Key::origin:
        return {index(origin), 0};
      case Key::category:
        return {static_cast<std::uint32_t>(categories_.category(AllocationId{allocation})), 0};
      case Key::tag:
        return {tags_->of(allocation), 0};
      default:
        return {static_cast<std::uint32_t>(categories_.phase[allocation]), 0};
    }
  }

  std::string label(const PartKey& part) const {
    const auto [id, detail] = part;
    switch (kind_) {
      case Key::stack:
        return stack_label(trace_.tables, StackId{id}, by_);
      case Key::layer:
        return layer_label(trace_.tables, categories_, StackId{id}, detail);
      case Key::library:
        return library_label(trace_.tables, communicators_, StackId{id}, detail);
      case Key::origin:
        return origin_label(trace_.tables, trace_.tables[OriginId{id}], by_);
      case Key::category:
        return std::string(name_of(static_cast<Category>(id)));
      case Key::tag:
        return tags_->label(id);
      default:
        return std::string(name_of(static_cast<Phase>(id)));
    }
  }

 private:
  const Trace& trace_;
  const Categories& categories_;
  GroupBy by_;
  Key kind_;
  std::vector<StackId> code_;
  Communicators communicators_;
  std::optional<Tags> tags_;
};

}  // namespace

std::optional<GroupBy> group_by_name(std::string_view name) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return std::nullopt;
  return static_cast<GroupBy>(found - names.begin());
}

std::string_view name_of(GroupBy by) { return names.at(static_cast<std::size_t>(by)); }

std::vector<std::string_view> group_by_names() { return {names.begin(), names.end()}; }

bool needs_categories(GroupBy by) { return by == GroupBy::layer || by == GroupBy::category || by == GroupBy::phase; }

std::vector<LiveGroup> live_groups(const Trace& trace, const std::vector<Lifetime>& lives, const Categories& categories,
                                   HeapId heap, std::uint64_t events, GroupBy by) {
  struct Part {
    Bytes bytes;
    std::vector<AllocationId> allocations;
    StackId stack = StackId::none;
  };
  const Grouping grouping(trace, categories, by);
  std::map<Grouping::PartKey, Part> parts;
  for (std::uint32_t a = 0; a < lives.size(); ++a) {
    if (!lives[a].live_after(events)) continue;
    const OriginId origin = trace.events.origin(lives[a].begin);
    if (trace.tables[origin].heap != heap) continue;
    const StackId stack = trace.events.stack(lives[a].begin);
    Part& part = parts[grouping.key(a, origin, stack)];
    part.bytes += trace.events.size(lives[a].begin);
    part.allocations.push_back(AllocationId{a});
    if (part.stack == StackId::none) part.stack = stack;
  }

  std::vector<LiveGroup> groups;
  std::map<std::string, std::size_t> by_label;
  std::vector<Bytes> largest_part;
  for (auto& [id, part] : parts) {
    std::string label = label_in(trace, grouping.label(id));
    // Two different stacks can have the same one-line label; they stay two groups.
    const std::string group_key = by == GroupBy::stack ? std::to_string(id.first) : label;
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

std::vector<GroupPeak> group_peaks(const Trace& trace, const Categories& categories, HeapId heap, GroupBy by) {
  const Events& events = trace.events;
  const Grouping grouping(trace, categories, by);
  std::map<Grouping::PartKey, std::uint32_t> rows;
  std::map<std::string, std::uint32_t> by_label;
  std::vector<GroupPeak> groups;
  std::vector<Bytes> live;
  std::vector<std::uint32_t> group_of(trace.events.allocation_count());
  for (std::uint32_t i = 0; i < events.count(); ++i) {
    const AllocationId id = events.allocation(i);
    if (id == AllocationId::none) continue;
    const std::uint32_t begin = trace.events.begin_of(id);
    const OriginId origin = events.origin(begin);
    if (trace.tables[origin].heap != heap) continue;
    std::uint32_t& group = group_of[index(id)];
    if (events.kind(i) == EventKind::free_requested) {
      live[group] -= events.size(begin);
    } else if (events.kind(i) == EventKind::alloc) {
      const auto [row, is_new] = rows.try_emplace(grouping.key(index(id), origin, events.stack(begin)), 0);
      if (is_new) {
        const std::string label = grouping.label(row->first);
        row->second = by_label.try_emplace(label, static_cast<std::uint32_t>(groups.size())).first->second;
        if (row->second == groups.size()) {
          groups.push_back({.label = label, .peak = {}});
          live.emplace_back();
        }
      }
      group = row->second;
      live[group] += events.size(begin);
      ++groups[group].count;
      if (live[group] > groups[group].peak) {
        groups[group].peak = live[group];
        groups[group].events = i + 1;
      }
    }
  }
  std::ranges::stable_sort(groups, std::ranges::greater{}, &GroupPeak::peak);
  return groups;
}

}  // namespace memreel
