#include "collector/attach/live_memory.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace memreel::attach {
namespace {

constexpr std::size_t steps_kept = 33;

}  // namespace

void LiveMemory::add(const EventBatch& batch) {
  std::uint64_t allocation = batch.first_allocation;
  for (std::size_t i = 0; i < batch.events.count(); ++i, ++events_) {
    Event event = batch.events[i];
    if (event.kind == EventKind::alloc) event.allocation = AllocationId{static_cast<std::uint32_t>(allocation++)};
    set_.apply(event);
    if (event.kind == EventKind::alloc) {
      const Heap& heap = (*tables_)[(*tables_)[event.origin].heap];
      if (heap.device < 0) continue;
      has_framework_ = has_framework_ || heap.level == Level::framework;
      owners_[index(event.allocation)] = {.stack = event.stack, .size = event.size, .level = heap.level};
      Held& held = by_stack_[static_cast<std::size_t>(heap.level)][index(event.stack)];
      held.live += event.size;
      ++held.count;
    } else if (event.kind == EventKind::free_requested && event.allocation != AllocationId::none) {
      const auto owner = owners_.find(index(event.allocation));
      if (owner == owners_.end()) continue;
      Held& held = by_stack_[static_cast<std::size_t>(owner->second.level)][index(owner->second.stack)];
      held.live = {held.live.count - owner->second.size.count};
      --held.count;
      owners_.erase(owner);
    } else if (is_step(event)) {
      at_steps_.push_back(live_in(level()));
      if (at_steps_.size() > steps_kept) at_steps_.pop_front();
    }
  }
}

bool LiveMemory::is_step(const Event& event) const {
  constexpr std::array<std::string_view, 5> names{"step", "iteration", "iter", "train_step", "training_step"};
  if (event.kind != EventKind::mark) return false;
  const Mark& mark = (*tables_)[MarkId{static_cast<std::uint32_t>(event.value)}];
  const std::string_view name = (*tables_)[mark.name];
  return mark.phase != MarkPhase::begin &&
         (std::ranges::find(names, name) != names.end() || name.starts_with("Optimizer.step"));
}

Bytes LiveMemory::live_in(Level level) const {
  Bytes live;
  for (const HeapState& state : set_.heaps())
    if ((*tables_)[state.heap].level == level && (*tables_)[state.heap].device >= 0) live += state.live;
  return live;
}

std::vector<LiveHeap> LiveMemory::heaps() const {
  std::vector<LiveHeap> rows;
  for (const HeapState& state : set_.heaps()) {
    const Heap& heap = (*tables_)[state.heap];
    if (heap.device < 0 || (state.live.count == 0 && heap.level == Level::driver && heap.parent != HeapId::none))
      continue;
    LiveHeap row{.name = std::string((*tables_)[heap.name]),
                 .device = heap.device,
                 .live = state.live,
                 .reserved = state.reserved,
                 .fragmentation = {}};
    // A framework that does not report its segments has all that its parent gave out.
    if (heap.level == Level::framework && row.reserved.count == 0 && heap.parent != HeapId::none)
      for (const HeapState& parent : set_.heaps())
        if (parent.heap == heap.parent) row.reserved = parent.live;
    if (heap.level == Level::framework && row.reserved.count >= row.live.count && row.reserved.count > 0)
      row.fragmentation = 1 - static_cast<double>(row.live.count) / static_cast<double>(row.reserved.count);
    rows.push_back(row);
  }
  return rows;
}

std::vector<LiveStack> LiveMemory::top(std::size_t count) const {
  std::vector<LiveStack> stacks;
  for (const auto& [stack, held] : by_stack_[static_cast<std::size_t>(level())])
    if (held.count > 0)
      stacks.push_back({.stack = StackId{static_cast<std::uint32_t>(stack)}, .live = held.live, .count = held.count});
  std::ranges::sort(stacks, [](const LiveStack& a, const LiveStack& b) {
    return a.live != b.live ? a.live > b.live : index(a.stack) < index(b.stack);
  });
  stacks.resize(std::min(stacks.size(), count));
  return stacks;
}

std::optional<double> LiveMemory::growth_per_step() const {
  if (at_steps_.size() < 3) return std::nullopt;
  const double grown = static_cast<double>(at_steps_.back().count) - static_cast<double>(at_steps_.front().count);
  return grown / static_cast<double>(at_steps_.size() - 1);
}

}  // namespace memreel::attach
