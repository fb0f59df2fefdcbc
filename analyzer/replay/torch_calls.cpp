#include "analyzer/replay/torch_calls.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/policies/torch_settings.h"
#include "analyzer/replay/torch_history.h"
#include "formats/import/torch/allocator_rules.h"
#include "formats/import/torch/destroyed_pools.h"
#include "formats/import/torch/empty_cache.h"
#include "formats/import/torch/snapshot.h"

namespace memreel {
namespace {

std::optional<torch::Action> action_of(EventKind kind) {
  switch (kind) {
    case EventKind::alloc:
      return torch::Action::alloc;
    case EventKind::free_requested:
      return torch::Action::free_requested;
    case EventKind::free_completed:
      return torch::Action::free_completed;
    case EventKind::segment_alloc:
      return torch::Action::segment_alloc;
    case EventKind::segment_free:
      return torch::Action::segment_free;
    case EventKind::segment_map:
      return torch::Action::segment_map;
    case EventKind::segment_unmap:
      return torch::Action::segment_unmap;
    case EventKind::alloc_failed:
      return torch::Action::oom;
    default:
      return std::nullopt;
  }
}

torch::AllocatorRules rules_of(const TorchSettings& settings) {
  torch::AllocatorRules rules;
  rules.garbage_collection_threshold = settings.garbage_collection_threshold;
  rules.max_split_size = settings.max_split_size;
  rules.max_non_split_rounding = settings.max_non_split_rounding;
  rules.large_buffer = settings.large_segment;
  rules.divisions = settings.divisions;
  rules.expandable = settings.expandable;
  return rules;
}

/// An event to be added.
struct Aside {
  std::uint32_t before = 0;  // which event
  EventKind kind = EventKind::unknown;
  OriginId origin = OriginId::none;
};

/// Stacks as they are outside of the allocator: inside, each of its loops has a stack of its own.
class OutsideStacks {
 public:
  explicit OutsideStacks(const Tables& tables) : tables_(tables) {
    for (const Module& module : tables.modules)
      inside_.push_back(std::filesystem::path(tables[module.path]).filename().string().starts_with("libc10_cuda."));
  }

  StackId operator[](StackId stack) {
    if (known_.size() < tables_.stacks.size()) known_.resize(tables_.stacks.size());
    std::optional<StackId>& known = known_[index(stack)];
    if (known) return *known;
    StackId outside = stack;
    for (StackId at = stack; at != StackId::none; at = tables_[at].caller)
      if (inside_[index(tables_[tables_[at].frame].module)]) outside = tables_[at].caller;
    known = outside;
    return outside;
  }

 private:
  const Tables& tables_;
  std::vector<bool> inside_;                   // by module
  std::vector<std::optional<StackId>> known_;  // by stack
};

/// The events of one heap, as the importer's rules take them.
class Inference {
 public:
  Inference(Trace& trace, HeapId heap) : trace_(trace), heap_(heap), stacks_(trace.tables) {}

  void run(std::vector<Aside>& asides) {
    std::map<std::string, std::string> settings;
    for (std::uint32_t i = 0; i < trace_.events.count(); ++i) take(i, settings);
    const torch::AllocatorRules rules = rules_of(TorchSettings::recorded(settings));
    const auto runs = torch::find_releases(history_, 0, places_, rules, trace_.tables);
    for (const torch::ReleaseCall& call : torch::find_release_calls(history_, places_, runs)) {
      const std::uint32_t before = events_[call.entry];
      const PoolId pool = call.place ? pool_of(*call.place) : PoolId::default_pool;
      asides.push_back({before, call.kind, origin_in(trace_.events.origin[before], pool)});
    }
  }

 private:
  void take(std::uint32_t i, std::map<std::string, std::string>& settings) {
    const Event event = trace_.events[i];
    const Origin& origin = trace_.tables[event.origin];
    if (origin.heap != heap_) return;
    if (event.kind == EventKind::settings)
      for (const auto& [key, value] : trace_.tables[SettingsId{static_cast<std::uint32_t>(event.value)}].entries)
        settings[trace_.tables[key]] = trace_.tables[value];
    const auto action = action_of(event.kind);
    if (!action) return;
    const Pool& pool = trace_.tables[origin.pool];
    const auto place = places_.id(
        {.stream = trace_.tables[origin.stream].handle, .pool = torch::PoolKey{pool.key_high, pool.key_low}});
    pools_.resize(std::max(pools_.size(), places_.count()));
    pools_[static_cast<std::size_t>(place)] = origin.pool;
    torch::Entry entry{
        .time_us = std::chrono::duration_cast<std::chrono::microseconds>(event.time).count(),
        .address = torch::has_address(*action) ? event.address.value : event.value,
        .size = event.size.count,
        .stack = stacks_[event.stack],
    };
    entry.set(*action, place);
    history_.entries.push_back(entry);
    events_.push_back(i);
  }

  PoolId pool_of(torch::PlaceId place) const { return pools_[static_cast<std::size_t>(place)]; }

  /// As the importer does: of the heap and the pool, of no stream.
  OriginId origin_in(OriginId of, PoolId pool) {
    const Origin wanted{.heap = heap_, .pool = pool, .thread = trace_.tables[of].thread};
    auto& origins = trace_.tables.origins;
    const auto found = std::ranges::find(origins, wanted);
    if (found == origins.end()) origins.push_back(wanted);
    return OriginId{static_cast<std::uint32_t>(found - origins.begin())};
  }

  Trace& trace_;
  HeapId heap_;
  OutsideStacks stacks_;
  torch::DeviceHistory history_;
  torch::Places places_;
  std::vector<PoolId> pools_;          // by place
  std::vector<std::uint32_t> events_;  // by entry
};

/// `asides` are in order.
void insert(Trace& trace, const std::vector<Aside>& asides) {
  EventColumns old = std::move(trace.events);
  trace.events = {};
  trace.events.reserve(old.count() + asides.size());
  auto aside = asides.begin();
  for (std::uint32_t i = 0; i < old.count(); ++i) {
    const Event event = old[i];
    for (; aside != asides.end() && aside->before == i; ++aside)
      trace.events.push_back({.kind = aside->kind, .origin = aside->origin, .stack = event.stack, .time = event.time});
    if (event.kind == EventKind::alloc && event.allocation != AllocationId::none)
      trace.allocation_events[index(event.allocation)] = static_cast<std::uint32_t>(trace.events.count());
    trace.events.push_back(event);
  }
}

}  // namespace

std::size_t infer_torch_calls(Trace& trace) {
  if (!is_recording(trace)) return 0;
  std::vector<Aside> asides;
  for (std::uint32_t h = 1; h < trace.tables.heaps.size(); ++h)
    if (is_torch(trace, HeapId{h}) && trace.tables.heaps[h].observes_completion)
      Inference(trace, HeapId{h}).run(asides);
  std::ranges::stable_sort(asides, {}, &Aside::before);
  if (!asides.empty()) insert(trace, asides);
  return asides.size();
}

}  // namespace memreel
