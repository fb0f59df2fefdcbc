// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/torch_calls.h"

#include <algorithm>
#include <filesystem>

#include "analyzer/replay/torch_rules.h"
#include "formats/import/torch/empty_cache.h"
#include "formats/import/torch/snapshot.h"

namespace memreel {

void UnsplitPools::taken(const Origin& origin, Address address, Bytes size) {
  if (origin.pool == PoolId::default_pool) return;
  Pool& pool = pools_[origin.pool];
  if (!pool.splits) pool.pieces[address] = {.size = size, .stream = origin.stream};
}

void UnsplitPools::given_back(const Origin& origin, Address address, Bytes size) {
  const auto found = pools_.find(origin.pool);
  if (found == pools_.end()) return;
  auto& pieces = found->second.pieces;
  for (auto piece = pieces.lower_bound(address); piece != pieces.end() && piece->first < address + size;)
    piece = pieces.erase(piece);
}

void UnsplitPools::allocated(const Origin& origin, std::uint32_t slot, Address address, Bytes requested) {
  if (origin.pool == PoolId::default_pool) return;
  Pool& pool = pools_[origin.pool];
  if (pool.splits) return;
  const auto piece = pool.pieces.find(address);
  if (piece == pool.pieces.end()) {
    pool = {.splits = true};
    return;
  }
  const Bytes rounded = settings_.round(requested);
  pool.passed_over = pool.passed_over || passes_over(pool, address, piece->second, rounded);
  piece->second.used = rounded;
  piece->second.fresh = false;
  live_[slot] = {origin.pool, address};
}

void UnsplitPools::completed(std::uint32_t slot) {
  if (live_.empty()) return;
  const auto live = live_.find(slot);
  if (live == live_.end()) return;
  auto& pieces = pools_[live->second.pool].pieces;
  if (const auto piece = pieces.find(live->second.address); piece != pieces.end()) piece->second.used = {};
  live_.erase(live);
}

bool UnsplitPools::contains(PoolId pool) const {
  const auto found = pools_.find(pool);
  return found != pools_.end() && !found->second.splits && found->second.passed_over;
}

bool UnsplitPools::passes_over(const Pool& pool, Address address, const Piece& piece, Bytes rounded) const {
  const bool small = TorchSettings::is_small(rounded);
  const Bytes least = settings_.least_rest(small);
  // For these larger ones, more than that decides which are handed out.
  if (rounded >= settings_.max_split_size) return false;
  return std::ranges::any_of(pool.pieces, [&](const auto& item) {
    const auto& [other_address, other] = item;
    if (other.used == 0_B || other.stream != piece.stream || TorchSettings::is_small(other.used) != small) return false;
    if (other.used >= std::min(other.size, settings_.max_split_size)) return false;
    const Bytes rest = other.size - other.used;
    if (rest < std::max(least, rounded) || rest >= settings_.max_split_size) return false;
    return piece.fresh ||
           (!settings_.expandable && std::pair(rest, other_address + other.used) < std::pair(piece.size, address));
  });
}

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

/// Stacks as seen from outside the allocator: inside, each of its loops has its own stack.
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

}  // namespace

/// The events of one heap, in the form of the importer's rules.
class TorchCalls::Inference {
 public:
  Inference(Tables& tables, HeapId heap) : tables_(&tables), heap_(heap), stacks_(tables) {}

  /// Whether see() does something with an event of this kind and origin.
  bool needs(EventKind kind, OriginId of) const {
    return (behind_segment_ < told_by || needs_all_ || is_segment(kind) || kind == EventKind::settings) &&
           (*tables_)[of].heap == heap_;
  }

  void see(const Event& event, std::uint32_t number) {
    const Origin& origin = (*tables_)[event.origin];
    if (origin.heap != heap_) return;
    if (event.kind == EventKind::settings) {
      for (const auto& [key, value] : (*tables_)[SettingsId{static_cast<std::uint32_t>(event.value)}].entries)
        settings_[(*tables_)[key]] = (*tables_)[value];
      const TorchSettings settings = TorchSettings::recorded(settings_);
      needs_all_ = settings.expandable && settings.max_split_size < TorchSettings::unlimited;
    }
    const auto action = action_of(event.kind);
    if (!action || !matters(event.kind)) return;
    const Pool& pool = (*tables_)[origin.pool];
    const auto pool_stream = pool_streams_.id(
        {.stream = (*tables_)[origin.stream].handle, .pool = torch::PoolKey{pool.key_high, pool.key_low}});
    pools_.resize(std::max(pools_.size(), pool_streams_.count()));
    pools_[static_cast<std::size_t>(pool_stream)] = origin.pool;
    torch::Entry entry{
        .time_us = std::chrono::duration_cast<std::chrono::microseconds>(event.time).count(),
        .address = torch::has_address(*action) ? event.address.value : event.value,
        .size = event.size.count,
        .stack = stacks_[event.stack],
    };
    entry.set(*action, pool_stream);
    history_.entries.push_back(entry);
    events_.push_back(number);
    origins_.push_back(event.origin);
  }

  void find(std::vector<TorchCall>& calls) {
    const TorchSettings rules = TorchSettings::recorded(settings_);
    const auto runs = torch::find_releases(history_, {}, pool_streams_, rules, *tables_);
    for (const torch::ReleaseCall& call : torch::find_release_calls(history_, pool_streams_, runs)) {
      const PoolId pool = call.pool_stream ? pool_of(*call.pool_stream) : PoolId::default_pool;
      calls.push_back({events_[call.entry], call.kind, origin_in(origins_[call.entry], pool)});
    }
  }

 private:
  /// Releases are judged by themselves, by the segments that follow, and by what follows these: the two events after a
  /// malloc that needs a segment identify it. Where blocks may be too large to be handed out, by all events before
  /// them.
  bool matters(EventKind kind) {
    if (is_segment(kind)) {
      behind_segment_ = 0;
      return true;
    }
    return needs_all_ || (behind_segment_ < told_by && ++behind_segment_ > 0);
  }

  static constexpr unsigned told_by = 2;

  PoolId pool_of(torch::PoolStreamId pool_stream) const { return pools_[static_cast<std::size_t>(pool_stream)]; }

  /// As in the importer: of the heap and the pool, without a stream.
  OriginId origin_in(OriginId of, PoolId pool) {
    const Origin wanted{.heap = heap_, .pool = pool, .thread = (*tables_)[of].thread};
    auto& origins = tables_->origins;
    const auto known = static_cast<std::size_t>(std::ranges::find(origins, wanted) - origins.begin());
    if (known == origins.size()) origins.push_back(wanted);
    return OriginId{static_cast<std::uint32_t>(known)};
  }

  Tables* tables_;
  HeapId heap_;
  OutsideStacks stacks_;
  std::map<std::string, std::string> settings_;
  torch::DeviceHistory history_;
  torch::PoolStreams pool_streams_;
  std::vector<PoolId> pools_;          // by pool and stream
  std::vector<std::uint32_t> events_;  // by entry
  std::vector<OriginId> origins_;      // by entry
  unsigned behind_segment_ = 0;        // number of events since the last segment event
  bool needs_all_ = false;
};

TorchCalls::TorchCalls(Tables& tables) {
  for (std::uint32_t h = 1; h < tables.heaps.size(); ++h)
    if (is_torch(tables, HeapId{h}) && tables.heaps[h].observes_completion)
      heaps_.push_back(std::make_unique<Inference>(tables, HeapId{h}));
}
TorchCalls::TorchCalls(TorchCalls&&) noexcept = default;
TorchCalls& TorchCalls::operator=(TorchCalls&&) noexcept = default;
TorchCalls::~TorchCalls() = default;

bool TorchCalls::possible() const { return !heaps_.empty(); }

void TorchCalls::see(const Event& event, std::uint32_t number) {
  for (const auto& heap : heaps_) heap->see(event, number);
}

void TorchCalls::see(const Events& events) {
  for (std::uint32_t i = 0; i < events.count(); ++i)
    for (const auto& heap : heaps_)
      if (heap->needs(events.kind(i), events.origin(i))) heap->see(events[i], i);
}

std::vector<TorchCall> TorchCalls::find() && {
  std::vector<TorchCall> calls;
  for (const auto& heap : heaps_) heap->find(calls);
  std::ranges::stable_sort(calls, {}, &TorchCall::before);
  return calls;
}

namespace {

/// `calls` must be in order.
void insert(Trace& trace, const std::vector<TorchCall>& calls) {
  const Events old = std::exchange(trace.events, {});
  auto call = calls.begin();
  for (std::uint32_t i = 0; i < old.count(); ++i) {
    const Event event = old[i];
    for (; call != calls.end() && call->before == i; ++call)
      trace.events.push_back({.kind = call->kind, .origin = call->origin, .stack = event.stack, .time = event.time});
    trace.events.push_back(event);
  }
  trace.events.pack();
}

}  // namespace

std::size_t infer_torch_calls(Trace& trace) {
  if (!is_recording(trace)) return 0;
  TorchCalls finder(trace.tables);
  if (!finder.possible()) return 0;
  finder.see(trace.events);
  const std::vector<TorchCall> calls = std::move(finder).find();
  if (!calls.empty()) insert(trace, calls);
  return calls.size();
}

}  // namespace memreel
