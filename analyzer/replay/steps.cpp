// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/steps.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <limits>
#include <map>

namespace memreel {
namespace {

constexpr std::array<std::string_view, 8> loop_bodies{"step",          "iteration", "iter",   "train_step",
                                                      "training_step", "train",     "decode", "batch"};
constexpr int not_a_step = std::numeric_limits<int>::max();

/// torch.profiler numbers its steps.
std::string_view name_of_step(std::string_view mark) {
  constexpr std::string_view profiler = "ProfilerStep";
  return mark.starts_with(profiler) ? profiler : mark;
}

/// Lower is better.
int rank_of(std::string_view name) {
  if (name == "ProfilerStep") return 0;
  std::string lower(name);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  const auto* const found = std::ranges::find(loop_bodies, lower);
  if (found != loop_bodies.end()) return 1 + static_cast<int>(found - loop_bodies.begin());
  return name.starts_with("Optimizer.step") ? 100 : not_a_step;
}

struct Candidate {
  std::vector<std::uint32_t> ends;
  std::vector<std::uint32_t> instants;

  const std::vector<std::uint32_t>& events() const { return ends.empty() ? instants : ends; }
};

}  // namespace

Steps find_steps(const Trace& trace, HeapId heap) {
  const Tables& tables = trace.tables;
  const bool any = std::ranges::any_of(
      tables.marks, [&](const Mark& mark) { return rank_of(name_of_step(tables[mark.name])) != not_a_step; });
  if (!any || !trace.read.later.empty()) return {};  // a mark is of one recording's loop
  const Events& events = trace.events;
  std::vector<MarkEvent> marks;
  for (std::uint32_t i = 0; i < events.count(); ++i)
    if (events.kind(i) == EventKind::mark)
      marks.push_back({.event = i,
                       .mark = MarkId{static_cast<std::uint32_t>(events.address_or_value(i))},
                       .origin = events.origin(i)});
  return find_steps(tables, marks, heap);
}

Steps find_steps(const Tables& tables, std::span<const MarkEvent> marks, HeapId heap) {
  // By rank and name, then by the device that the marks were recorded for.
  std::map<std::pair<int, std::string_view>, std::map<std::int32_t, Candidate>> found;
  for (const MarkEvent& at : marks) {
    if (index(at.mark) >= tables.marks.size()) continue;
    const Mark& mark = tables[at.mark];
    const std::string_view name = name_of_step(tables[mark.name]);
    const int rank = rank_of(name);
    if (rank == not_a_step || mark.phase == MarkPhase::begin) continue;
    Candidate& candidate = found[{rank, name}][tables[tables[at.origin].heap].device];
    (mark.phase == MarkPhase::end ? candidate.ends : candidate.instants).push_back(at.event);
  }
  for (const auto& [key, by_device] : found) {
    const auto own = by_device.find(tables[heap].device);
    const Candidate& candidate = own != by_device.end() ? own->second : by_device.begin()->second;
    if (!candidate.events().empty()) return {.mark = std::string(key.second), .ends = candidate.events()};
  }
  return {};
}

}  // namespace memreel
