// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/insight/pool_errors.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>

#include "analyzer/describe/own_frame.h"
#include "formats/model/quantity.h"

namespace memreel {
namespace {

constexpr std::array<std::string_view, pool_error_kinds> pool_error_names{
    "double free", "invalid free", "overlap", "outside segments", "segment in use", "use after destroy"};

/// The state of one pool, and what contradicts it.
class PoolCheck {
 public:
  PoolCheck(const Trace& trace, HeapId heap, bool knows_all) : trace_(trace), heap_(heap), knows_all_(knows_all) {}

  void see(std::uint32_t i) {
    const EventKind kind = trace_.events.kind(i);
    if (kind == EventKind::pool_created || kind == EventKind::pool_destroyed) {
      if (kind == EventKind::pool_created)
        destroyed_.reset();
      else if (!destroyed_)
        destroyed_ = i;
      tears_down_ = kind == EventKind::pool_destroyed;
      next_ = i + 1;
      return;
    }
    if (!has_address(kind)) return;
    // What a destruction implies follows it directly, and nobody called it.
    tears_down_ = tears_down_ && i == next_ && trace_.events.stack(i) == StackId::none &&
                  (is_free(kind) || kind == EventKind::segment_free);
    next_ = i + 1;
    if (destroyed_ && !tears_down_) {  // whatever else is wrong with it follows from that
      if (kind != EventKind::free_completed) add(PoolErrorKind::use_after_destroy, i, trace_.events.stack(*destroyed_));
      return;
    }
    switch (kind) {
      case EventKind::alloc:
        return alloc(i);
      case EventKind::free_requested:
      case EventKind::free_completed:
        return free(i);
      case EventKind::segment_alloc:
      case EventKind::segment_map:
        segments_[at(i)] = size(i);
        has_segments_ = true;
        return;
      default:
        return remove_segment(i);
    }
  }

  std::vector<PoolError> take() && { return std::move(errors_); }

 private:
  struct Block {
    std::uint64_t size = 0;
    std::uint32_t event = 0;
  };

  std::uint64_t at(std::uint32_t i) const { return trace_.events.address(i).value; }
  std::uint64_t size(std::uint32_t i) const { return trace_.events.size(i).count; }

  void add(PoolErrorKind kind, std::uint32_t i, StackId contradicts) {
    const auto [found, is_new] = places_.try_emplace({kind, trace_.events.stack(i), contradicts}, errors_.size());
    if (is_new)
      errors_.push_back({.kind = kind,
                         .heap = heap_,
                         .event = i,
                         .stack = trace_.events.stack(i),
                         .address = trace_.events.address(i),
                         .size = trace_.events.size(i),
                         .contradicts = contradicts});
    ++errors_[found->second].count;
  }

  void alloc(std::uint32_t i) {
    const std::uint64_t begin = at(i), end = begin + size(i);
    const StackId stack = trace_.events.stack(i);
    // The recorder ends what is live there, with a free that nobody called.
    if (implied_free_ && implied_free_->first == begin && implied_free_->second + 2 >= i && stack != StackId::none)
      add(PoolErrorKind::overlap, i, stack_of_last_);
    implied_free_.reset();
    if (has_segments_ && !is_within_segments(begin, end)) add(PoolErrorKind::outside_segments, i, StackId::none);
    if (has_segments_ && end > begin)
      if (const std::optional<Block> other = overlapped(begin, end))
        add(PoolErrorKind::overlap, i, trace_.events.stack(other->event));
    live_[begin] = {.size = size(i), .event = i};
    freed_.erase(begin);
  }

  std::optional<Block> overlapped(std::uint64_t begin, std::uint64_t end) const {
    auto next = live_.lower_bound(begin);
    if (next != live_.end() && next->first < end) return next->second;
    if (next == live_.begin()) return std::nullopt;
    --next;
    return next->first + next->second.size > begin ? std::optional(next->second) : std::nullopt;
  }

  /// Adjacent segments may be one range of addresses.
  bool is_within_segments(std::uint64_t begin, std::uint64_t end) const {
    auto segment = segments_.upper_bound(begin);
    if (segment == segments_.begin()) return false;
    --segment;
    std::uint64_t reached = segment->first + segment->second;
    while (reached < end && ++segment != segments_.end() && segment->first <= reached)
      reached = std::max(reached, segment->first + segment->second);
    return begin < reached && end <= reached;
  }

  void free(std::uint32_t i) {
    const Events& events = trace_.events;
    const std::uint64_t address = at(i);
    const auto block = live_.find(address);
    const bool completes = events.kind(i) == EventKind::free_completed;
    if (block != live_.end() && !completes) {
      if (events.stack(i) == StackId::none && !tears_down_) {
        implied_free_ = {address, i};
        stack_of_last_ = events.stack(block->second.event);
      }
      live_.erase(block);
      freed_[address] = {.event = i};
      return;
    }
    // A completion belongs to the request before it, and so does one of what is not there.
    if (completes && (events.allocation(i) != AllocationId::none || last_free_ == address)) return;
    last_free_ = address;
    if (tears_down_) return;
    if (const auto before = freed_.find(address); before != freed_.end())
      add(PoolErrorKind::double_free, i, events.stack(before->second.event));
    else if (knows_all_)
      add(PoolErrorKind::invalid_free, i, StackId::none);
  }

  void remove_segment(std::uint32_t i) {
    const std::uint64_t begin = at(i), end = begin + size(i);
    if (!tears_down_)
      for (auto block = live_.lower_bound(begin); block != live_.end() && block->first < end; ++block)
        add(PoolErrorKind::segment_in_use, i, trace_.events.stack(block->second.event));
    segments_.erase(begin);
  }

  const Trace& trace_;
  HeapId heap_;
  bool knows_all_;
  std::map<std::uint64_t, Block> live_;              // by address; without blocks awaiting free
  std::map<std::uint64_t, std::uint64_t> segments_;  // address -> size
  bool has_segments_ = false;                        // now or before
  std::unordered_map<std::uint64_t, Block> freed_;   // by address: the last free, if nothing is live there
  std::optional<std::uint64_t> last_free_;           // the address of the last free of what is not there
  std::optional<std::pair<std::uint64_t, std::uint32_t>> implied_free_;  // address and event
  StackId stack_of_last_ = StackId::none;                                // of the allocation that it ended
  std::optional<std::uint32_t> destroyed_;                               // the event
  bool tears_down_ = false;
  std::uint32_t next_ = 0;
  std::vector<PoolError> errors_;
  std::map<std::tuple<PoolErrorKind, StackId, StackId>, std::size_t> places_;
};

std::string place_of(const Tables& tables, StackId stack) {
  return stack == StackId::none ? "where no stack was recorded" : "at " + site_label(tables, stack);
}

}  // namespace

std::string_view name_of(PoolErrorKind kind) { return pool_error_names.at(static_cast<std::size_t>(kind)); }

std::string evidence_of(const Tables& tables, const PoolError& error) {
  const std::string call = place_of(tables, error.stack), before = place_of(tables, error.contradicts);
  const std::string address = hexadecimal(error.address.value);
  const std::string allocation = text_of(error.size) + " at " + address + ", allocated " + call + ", ";
  switch (error.kind) {
    case PoolErrorKind::double_free:
      return address + " was freed " + call + ", and before " + before;
    case PoolErrorKind::invalid_free:
      return address + " was freed " + call + ", and never allocated in this pool";
    case PoolErrorKind::overlap:
      return allocation + "overlap what was allocated " + before;
    case PoolErrorKind::outside_segments:
      return allocation + "are not within the pool's segments";
    case PoolErrorKind::segment_in_use:
      return "the segment at " + address + " was removed " + call + ", with what was allocated " + before + " in it";
    case PoolErrorKind::use_after_destroy:
      return address + " was used " + call + ", after the pool was destroyed " + before;
  }
  return {};
}

const std::array<ResultField<PoolError>, 7> FieldsOf<PoolError>::all{{
    {"error", "error", Unit::text, "What is wrong",
     [](const Tables&, const PoolError& error) -> Cell { return std::string(name_of(error.kind)); }},
    {"heap", "pool", Unit::text, "Name of the pool",
     [](const Tables& tables, const PoolError& error) -> Cell { return tables[tables[error.heap].name]; }},
    {"count", "count", Unit::count, "How often, by the same two calls",
     [](const Tables&, const PoolError& error) -> Cell { return error.count; }},
    {"event", "", Unit::count, "Event of the first",
     [](const Tables&, const PoolError& error) -> Cell { return error.event; }},
    {"address", "", Unit::count, "Address of the first",
     [](const Tables&, const PoolError& error) -> Cell { return error.address.value; }},
    {"bytes", "", Unit::requested, "Size of the first; 0: not recorded",
     [](const Tables&, const PoolError& error) -> Cell { return error.size; }},
    {"evidence", "first", Unit::text, "The first of them, in one sentence",
     [](const Tables& tables, const PoolError& error) -> Cell { return evidence_of(tables, error); }},
}};

std::vector<HeapId> own_pools(const Trace& trace) {
  std::vector<char> is_own(trace.tables.heaps.size());
  for (std::size_t i = 0; i < trace.events.count(); ++i)
    if (const EventKind kind = trace.events.kind(i);
        kind == EventKind::pool_created || kind == EventKind::pool_destroyed)
      is_own[index(trace.tables[trace.events.origin(i)].heap)] = 1;
  std::vector<HeapId> pools;
  for (std::uint32_t heap = 0; heap < is_own.size(); ++heap)
    if (is_own[heap] != 0) pools.push_back(HeapId{heap});
  return pools;
}

std::vector<PoolError> pool_errors(const Trace& trace) {
  const Losses& losses = trace.losses;
  const bool knows_all =
      !losses.began_late && losses.ring_full == 0 && losses.hook_refused == 0 && losses.folded_events == 0;
  std::map<HeapId, PoolCheck> checks;
  for (const HeapId heap : own_pools(trace)) checks.try_emplace(heap, trace, heap, knows_all);
  std::vector<PoolError> errors;
  if (checks.empty()) return errors;
  for (std::uint32_t i = 0; i < trace.events.count(); ++i)
    if (const auto check = checks.find(trace.tables[trace.events.origin(i)].heap); check != checks.end())
      check->second.see(i);
  for (auto& [heap, check] : checks)
    for (PoolError& error : std::move(check).take()) errors.push_back(error);
  return errors;
}

}  // namespace memreel
