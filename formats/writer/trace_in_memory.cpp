// SPDX-License-Identifier: Apache-2.0
#include "formats/writer/trace_in_memory.h"

#include <algorithm>

#include "formats/model/frame_kind.h"
#include "formats/model/printable.h"
#include "formats/model/value_check.h"
#include "formats/writer/interner.h"

namespace memreel {
namespace {

constexpr std::uint64_t events_between_checks = std::uint64_t{1} << 16U;  // of memory

/// Approximate: tables that grow have room for as many rows again.
Bytes memory_of(const Tables& tables) {
  std::uint64_t bytes = 0;
  const auto add = [&](const auto& rows) { bytes += 2 * sizeof(rows.front()) * rows.size(); };
  add(tables.strings), add(tables.modules), add(tables.frames), add(tables.stacks), add(tables.heaps);
  add(tables.pools), add(tables.streams), add(tables.threads), add(tables.origins), add(tables.marks);
  add(tables.settings);
  for (const std::string& text : tables.strings) bytes += text.size();
  for (const Settings& row : tables.settings) bytes += row.entries.size() * sizeof(row.entries.front());
  return {bytes};
}

/// Clears the fields that the event's kind does not have.
void clear_unused(Event& event) {
  if (!is_free(event.kind) && event.kind != EventKind::alloc) event.allocation = AllocationId::none;
  if (!has_address(event.kind)) event.address = {};
  if (!has_size(event.kind)) event.size = {};
  if (!has_value(event.kind)) event.value = 0;
}

}  // namespace

TraceInMemory::TraceInMemory(const Header& header, std::string name, Bytes memory_limit)
    : name_(std::move(name)), memory_limit_(memory_limit) {
  trace_.header = header;
  make_printable(trace_.header);
}

AllocationId TraceInMemory::append(const Event& appended) {
  if (appended.kind == EventKind::unknown || !status_) return AllocationId::none;
  Event event = appended;
  clear_unused(event);
  Events& events = trace_.events;
  if (event.kind == EventKind::alloc) {
    const auto id = static_cast<std::uint32_t>(events.allocation_count());
    event.allocation = AllocationId{id};
    by_place_.put({event.address, tables()[event.origin].heap}, id);  // ends an older one that is still there
  } else if (is_free(event.kind)) {
    match(event);
  }
  events.push_back(event);
  if (events.count() % events_between_checks == 0) status_ = check_memory(events, {}, memory_limit_, name_);
  return event.allocation;
}

// As LiveSet::apply() does, for whoever reads the trace; but here the events so far say the rest.
void TraceInMemory::match(Event& free) {
  const Events& events = trace_.events;
  const auto ends_in = [&](HeapId heap) {
    return free.kind == EventKind::free_completed || !tables()[heap].observes_completion;
  };
  if (index(free.allocation) < events.allocation_count()) {
    const std::uint32_t source = events.begin_of(free.allocation);
    const HeapAddress place{events.address(source), tables()[events.origin(source)].heap};
    if (ends_in(place.heap) && by_place_.find(place) == index(free.allocation)) by_place_.erase(place);
    return;
  }
  const HeapAddress place{free.address, tables()[free.origin].heap};
  free.allocation = AllocationId{ends_in(place.heap) ? by_place_.erase(place) : by_place_.find(place)};
  if (free.allocation == AllocationId::none) ++unmatched_frees_;
}

HeapState TraceInMemory::state_of(HeapId heap) const {
  LiveSet live(tables());
  for (std::size_t i = 0; i < trace_.events.count(); ++i) {
    Event event = trace_.events[i];
    live.apply(event);
  }
  return live.state_of(heap);
}

void TraceInMemory::add_initial_heap(InitialHeap initial) {
  if (is_sound(initial) &&
      std::ranges::find(trace_.initial_heaps, initial.heap, &InitialHeap::heap) == trace_.initial_heaps.end())
    trace_.initial_heaps.push_back(std::move(initial));
}

void TraceInMemory::set_python_holders(PythonHolders holders) {
  tidy(holders);
  trace_.python_holders = std::move(holders);
}

Result<void> TraceInMemory::finish() {
  if (!status_) return status_;
  trace_.events.pack();
  if (tables().heaps.size() - 1 > max_heaps)
    return status_ = Error{.what = "has more than " + std::to_string(max_heaps) + " heaps", .where = name_};
  status_ = check_memory(trace_.events, memory_of(tables()), memory_limit_, name_);
  if (!status_) return status_;
  trace_.tables = std::move(interner().tables());
  StackDepths depths;
  depths.bound(trace_.tables.stacks);
  for (std::string& text : trace_.tables.strings) make_printable(text);
  classify_frames(trace_.tables);
  shorten_paths(trace_.tables);
  trace_.losses = losses_;
  trace_.losses.unmatched_frees = std::max(losses_.unmatched_frees, unmatched_frees_);
  trace_.losses.stack_table_full += depths.cut();
  trace_.read.has_footer = true;
  return status_;
}

}  // namespace memreel
