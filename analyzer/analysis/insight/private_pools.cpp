// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/insight/private_pools.h"

#include <map>
#include <unordered_map>

#include "analyzer/describe/own_frame.h"
#include "formats/model/stack_text.h"

namespace memreel {
namespace {

/// What a stack reveals about captures.
enum class Capture : std::uint8_t { none, begins, is_near };

std::vector<Capture> captures_of(const Tables& tables, std::span<const StackMeaning> meanings) {
  static constexpr std::array<std::string_view, 2> entries{"capture_begin", "__enter__"};
  std::vector<Capture> captures(meanings.size(), Capture::none);
  for (std::uint32_t id = 0; id < meanings.size(); ++id) {
    if (meanings[id].purpose != Purpose::capture) continue;
    const std::vector<FrameText> frames = frames_of(tables, StackId{id});
    const bool begins = std::ranges::any_of(frames, [&](const FrameText& frame) {
      const FrameRule* const rule = rule_of(frame);
      return rule != nullptr && rule->purpose == Purpose::capture && std::ranges::count(entries, frame.function) > 0;
    });
    captures[id] = begins ? Capture::begins : Capture::is_near;
  }
  return captures;
}

/// PyTorch's ids: (n, 0) for a pool that a CUDA graph creates for itself, (0, n) for one created by the program
/// (c10/cuda/MemPool.cpp).
bool is_made_by_capture(const Pool& pool) { return !pool.inferred && pool.key_high != 0 && pool.key_low == 0; }

class PoolUses {
 public:
  PoolUses(const Trace& trace, HeapId heap, const std::vector<Capture>& captures)
      : trace_(trace), heap_(heap), captures_(captures) {}

  void see(std::size_t i) {
    const Events& events = trace_.events;
    const EventKind kind = events.kind(i);
    if (kind == EventKind::free_requested) return see_free(events.allocation(i));
    if (kind != EventKind::alloc && !is_segment(kind) && kind != EventKind::empty_cache) return;
    const Origin& origin = trace_.tables[events.origin(i)];
    if (origin.heap != heap_) return;
    if (kind == EventKind::alloc) return see_alloc(i, origin);
    // A capture empties the cache before it begins, and allocates its random generators' seeds outside its pool.
    if (capture_at(i) != Capture::none) threads_[origin.thread].near_capture = true;
    if (is_segment(kind)) see_segment(kind, origin.pool, events.size(i));
  }

  std::vector<PrivatePool> take() && {
    std::vector<PrivatePool> pools;
    for (auto& [id, state] : pools_) {
      end_use(state);
      state.found.has_captures |= is_made_by_capture(trace_.tables[id]);
      if (!state.found.uses.empty()) pools.push_back(std::move(state.found));
    }
    return pools;
  }

 private:
  struct State {
    PrivatePool found;
    bool open = false;       // its last use is still running
    bool has_begun = false;  // more of it was seen than the start of a capture
    ThreadId owner = ThreadId::unknown;
    Bytes use_live;  // of the last use's own requests, whether open or not
    Bytes growth;    // reserved for the next request
  };

  struct Thread {
    PoolId pool = PoolId::default_pool;  // of its last request
    bool near_capture = false;           // part of a capture was seen since
  };

  /// An allocation in a private pool, and the use that requested it.
  struct Owned {
    PoolId pool;
    std::size_t use;
    Bytes size;
  };

  Capture capture_at(std::size_t i) const {
    const StackId stack = trace_.events.stack(i);
    return index(stack) < captures_.size() ? captures_[index(stack)] : Capture::none;
  }

  void see_alloc(std::size_t i, const Origin& origin) {
    Thread& thread = threads_[origin.thread];
    if (const PoolId last = std::exchange(thread.pool, origin.pool);
        last != origin.pool && last != PoolId::default_pool)
      if (State& left = pools_[last]; left.owner == origin.thread) left.open = false;
    const Capture capture = capture_at(i);
    const bool near = std::exchange(thread.near_capture, capture != Capture::none) || capture != Capture::none;
    if (origin.pool == PoolId::default_pool) return;
    State& state = pools_[origin.pool];
    state.found.pool = origin.pool;
    state.found.has_captures |= near;
    if (!state.open || (capture == Capture::begins && state.has_begun)) begin_use(state, i, origin.thread);
    state.has_begun |= capture != Capture::begins;
    const Bytes size = trace_.events.size(i);
    PoolUse& use = state.found.uses.back();
    ++use.allocations;
    use.grew += std::exchange(state.growth, 0_B);
    state.use_live += size;
    use.used = std::max(use.used, state.use_live);
    state.found.live += size;
    state.found.peak_live = std::max(state.found.peak_live, state.found.live);
    owned_.emplace(index(trace_.events.allocation(i)), Owned{origin.pool, state.found.uses.size() - 1, size});
  }

  void begin_use(State& state, std::size_t i, ThreadId thread) {
    end_use(state);
    state.open = true;
    state.has_begun = false;
    state.owner = thread;
    state.use_live = 0_B;
    state.found.uses.push_back({.event = i, .stack = trace_.events.stack(i)});
  }

  static void end_use(State& state) {
    if (!state.found.uses.empty()) state.found.uses.back().kept = state.use_live;
  }

  void see_free(AllocationId allocation) {
    const auto found = owned_.find(index(allocation));
    if (found == owned_.end()) return;
    State& state = pools_[found->second.pool];
    state.found.live -= found->second.size;
    if (found->second.use + 1 == state.found.uses.size()) state.use_live -= found->second.size;
    owned_.erase(found);
  }

  void see_segment(EventKind kind, PoolId pool, Bytes size) {
    if (pool == PoolId::default_pool) return;
    State& state = pools_[pool];
    PrivatePool& found = state.found;
    found.pool = pool;
    if (kind == EventKind::segment_alloc || kind == EventKind::segment_map) {
      found.reserved += size;
      found.peak_reserved = std::max(found.peak_reserved, found.reserved);
      state.growth += size;
    } else {
      found.reserved -= std::min(size, found.reserved);
    }
  }

  const Trace& trace_;
  HeapId heap_;
  const std::vector<Capture>& captures_;  // by StackId
  std::map<PoolId, State> pools_;
  std::map<ThreadId, Thread> threads_;
  std::unordered_map<std::uint32_t, Owned> owned_;
};

}  // namespace

Bytes PrivatePool::shared() const {
  Bytes apart;
  for (const PoolUse& use : uses) apart += use.used;
  return apart - std::min(apart, peak_live);
}

std::optional<Bytes> PrivatePool::marginal() const {
  if (uses.size() < 2) return std::nullopt;
  std::vector<Bytes> costs;
  for (auto use = uses.begin() + 1; use != uses.end(); ++use) costs.push_back(use->grew);
  const auto middle = costs.begin() + static_cast<std::ptrdiff_t>(costs.size() / 2);
  std::ranges::nth_element(costs, middle);
  return *middle;
}

const std::array<ResultField<PoolUse>, 6> FieldsOf<PoolUse>::all{{
    {"event", "", Unit::count, "Event of its first request",
     [](const Tables&, const PoolUse& use) -> Cell { return use.event; }},
    {"allocated_at", "", Unit::text, "Where the first request was made",
     [](const Tables& tables, const PoolUse& use) -> Cell { return site_label(tables, use.stack); }},
    {"allocations", "", Unit::count, "How many requests it made",
     [](const Tables&, const PoolUse& use) -> Cell { return use.allocations; }},
    {"grew_bytes", "", Unit::bytes, "What the pool reserved for it: the marginal cost of this graph",
     [](const Tables&, const PoolUse& use) -> Cell { return use.grew; }},
    {"used_bytes", "", Unit::bytes, "The most that its own requests held at once",
     [](const Tables&, const PoolUse& use) -> Cell { return use.used; }},
    {"kept_bytes", "", Unit::bytes, "Of these, live when the next use begins, or when the trace ends",
     [](const Tables&, const PoolUse& use) -> Cell { return use.kept; }},
}};

const std::array<ResultField<PrivatePool>, 11> FieldsOf<PrivatePool>::all{{
    {"pool", "pool", Unit::text, "Name of the pool",
     [](const Tables& tables, const PrivatePool& pool) -> Cell { return pool_label(tables, pool.pool); }},
    {"cuda_graphs", "", Unit::flag, "Whether stacks, or the pool's id, show that CUDA graphs were captured into it",
     [](const Tables&, const PrivatePool& pool) -> Cell { return pool.has_captures; }},
    {"", "uses", Unit::count, "How many captures, or other uses, it served",
     [](const Tables&, const PrivatePool& pool) -> Cell { return std::uint64_t{pool.uses.size()}; }},
    {"reserved_bytes", "reserved", Unit::bytes, "Held when the trace ends",
     [](const Tables&, const PrivatePool& pool) -> Cell { return pool.reserved; }},
    {"live_bytes", "", Unit::requested, "Of that, live",
     [](const Tables&, const PrivatePool& pool) -> Cell { return pool.live; }},
    {"peak_reserved_bytes", "peak", Unit::bytes, "The most it held",
     [](const Tables&, const PrivatePool& pool) -> Cell { return pool.peak_reserved; }},
    {"peak_live_bytes", "", Unit::requested, "The most that was live in it",
     [](const Tables&, const PrivatePool& pool) -> Cell { return pool.peak_live; }},
    {"reusable_bytes", "reusable", Unit::bytes, "Held and not live: only the pool itself can use it",
     [](const Tables&, const PrivatePool& pool) -> Cell { return pool.reusable(); }},
    {"shared_bytes", "", Unit::requested,
     "What its uses would need beyond the pool's peak if each had a pool of its own",
     [](const Tables&, const PrivatePool& pool) -> Cell { return pool.shared(); }},
    {"", "first", Unit::bytes, "What its first use reserved",
     [](const Tables&, const PrivatePool& pool) -> Cell { return pool.uses.front().grew; }},
    {"", "each more", Unit::bytes, "What each further use reserved, as their median",
     [](const Tables&, const PrivatePool& pool) -> Cell {
       const std::optional<Bytes> each = pool.marginal();
       return each ? Cell{*each} : Cell{};
     }},
}};

std::vector<HeapPools> private_pools(const Trace& trace, const Activity& activity) {
  std::vector<HeapPools> heaps;
  if (trace.tables.pools.size() < 2) return heaps;
  const std::vector<Capture> captures = captures_of(trace.tables, activity.stacks);
  for (std::uint32_t heap = 1; heap < trace.tables.heaps.size(); ++heap) {
    if (trace.tables.heaps[heap].level != Level::framework) continue;
    PoolUses uses(trace, HeapId{heap}, captures);
    for (std::size_t i = 0; i < trace.events.count(); ++i) uses.see(i);
    HeapPools found{.heap = HeapId{heap}, .pools = std::move(uses).take()};
    if (found.pools.empty()) continue;
    std::ranges::stable_sort(found.pools, std::ranges::greater{}, &PrivatePool::peak_reserved);
    heaps.push_back(std::move(found));
  }
  return heaps;
}

}  // namespace memreel
