// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/beginning.h"

#include <limits>
#include <numeric>
#include <set>

#include "analyzer/replay/registry.h"
#include "analyzer/replay/shared_device.h"
#include "formats/model/flat_map.h"

namespace memreel {
namespace {

constexpr Bytes all_cached{std::numeric_limits<std::uint64_t>::max()};

void push(Prepared& rows, Op op, std::uint32_t slot, std::uint32_t pool_stream, Bytes size, std::uint32_t event) {
  rows.op.push_back(op);
  rows.slot.push_back(slot);
  rows.pool_stream.push_back(pool_stream);
  rows.size.push_back(size);
  rows.event.push_back(event);
  if (rows.keeps_addresses) rows.address.emplace_back();
}

/// Appends rows of `from` to those of `to`.
void append(const Prepared& from, std::size_t begin, Prepared& to) {
  const auto copy = [&](const auto& column, auto& into) {
    if (column.size() > begin)
      into.insert(into.end(), column.begin() + static_cast<std::ptrdiff_t>(begin), column.end());
  };
  copy(from.op, to.op);
  copy(from.slot, to.slot);
  copy(from.pool_stream, to.pool_stream);
  copy(from.size, to.size);
  copy(from.event, to.event);
  copy(from.address, to.address);
}

/// The heap without its initial state, with only the rows that stand for that. Slots keep their numbers; those of
/// cached memory follow.
Prepared only_beginning(const Prepared& heap, Beginning beginning) {
  const InitialState& initial = *heap.initial;
  Prepared result = without_rows(heap);
  result.initial.reset();
  struct Piece {
    const InitialBlock* block = nullptr;
    std::uint32_t pool_stream = 0;
    std::uint32_t slot = 0;  // unless it is free
  };
  std::vector<std::size_t> by_address(initial.segments.size());
  std::iota(by_address.begin(), by_address.end(), std::size_t{0});
  std::ranges::sort(by_address, {}, [&](std::size_t i) { return initial.segments[i].address; });
  std::vector<std::uint32_t> first_slot(initial.segments.size());
  std::uint32_t next = 0;
  for (const std::size_t i : by_address) {
    first_slot[i] = next;
    for (const InitialBlock& block : initial.segments[i].blocks)
      if (block.use != InitialUse::free) ++next;
  }
  // Oldest first: the driver hands out addresses from the top down, an allocator those of a segment from its front.
  std::ranges::stable_sort(by_address, std::greater{}, [&](std::size_t i) { return initial.segments[i].range; });
  std::vector<Piece> pieces;
  for (const std::size_t i : by_address) {
    next = first_slot[i];
    for (const InitialBlock& block : initial.segments[i].blocks) {
      pieces.push_back({.block = &block, .pool_stream = initial.pool_stream[i], .slot = next});
      if (block.use != InitialUse::free) ++next;
    }
  }
  std::vector<std::size_t> turns(pieces.size());
  std::iota(turns.begin(), turns.end(), std::size_t{0});
  if (beginning.order == 1) std::ranges::reverse(turns);
  if (beginning.order > 1)
    std::ranges::sort(turns, {}, [&](std::size_t piece) { return mix_bits(piece + (beginning.order << 32U)); });
  std::vector<std::size_t> cached;
  for (const std::size_t turn : turns) {
    const auto& [block, pool_stream, slot] = pieces[turn];
    if (block->use == InitialUse::free) {
      if (block->size > beginning.cached) continue;
      beginning.cached -= block->size;
      cached.push_back(result.count());
      push(result, Op::alloc, result.slot_count++, pool_stream, block->size, initial.last_event);
      continue;
    }
    push(result, Op::alloc, slot, pool_stream, initial.requested[slot], initial.last_event);
    if (block->use == InitialUse::pending)
      push(result, Op::free_requested, slot, pool_stream, initial.requested[slot], initial.last_event);
  }
  for (const std::size_t row : cached)
    push(result, Op::free, result.slot[row], result.pool_stream[row], result.size[row], initial.last_event);
  return result;
}

/// A source of no rows: what a policy does before the first.
class NoRows final : public RowSource {
 public:
  std::size_t row_count(HeapId) const override { return 0; }
  void for_each_piece(HeapId, const std::function<bool(const Prepared&)>&) const override {}
};

/// The most that the program held.
Bytes peak_live_of(const Prepared& heap, const RowSource* rows) {
  const auto bound = bind_policy({.name = "bound.live", .parameters = {}});
  return bound ? bound->run(heap, {.rows = rows}).peak_live : Bytes{};
}

}  // namespace

bool keeps_free_memory(const PolicySpec& policy) {
  return policy.name != "cuda.malloc" && !policy.name.starts_with("bound.") && !policy.name.starts_with("plan.");
}

Beginning likely_beginning(const InitialState& initial, Bytes peak_live) {
  return {.cached = peak_live - std::min(peak_live, initial.live)};
}

Prepared with_beginning(const Prepared& heap, Beginning beginning) {
  Prepared result = only_beginning(heap, beginning);
  const std::size_t added = result.count();
  append(heap, heap.initial->rows, result);
  for (const std::uint32_t row : heap.step_ends)
    result.step_ends.push_back(
        static_cast<std::uint32_t>(std::max<std::size_t>(row, heap.initial->rows) - heap.initial->rows + added));
  return result;
}

/// Streamed rows with others in place of the first.
class BegunHeap::LateRows final : public RowSource {
 public:
  LateRows(Prepared beginning, std::size_t replaced, const RowSource& rows)
      : beginning_(std::move(beginning)), replaced_(replaced), rows_(rows) {}

  std::size_t row_count(HeapId heap) const override { return beginning_.count() + rows_.row_count(heap) - replaced_; }

  void for_each_piece(HeapId heap, const std::function<bool(const Prepared& piece)>& take) const override {
    std::size_t replaced = 0;
    bool goes_on = beginning_.count() == 0 || take(beginning_);
    rows_.for_each_piece(heap, [&](const Prepared& piece) {
      const std::size_t skipped = std::min(replaced_ - replaced, piece.count());
      replaced += skipped;
      if (!goes_on || skipped == piece.count()) return goes_on;
      if (skipped == 0) return goes_on = take(piece);
      Prepared rest;
      append(piece, skipped, rest);
      return goes_on = take(rest);
    });
  }

 private:
  Prepared beginning_;
  std::size_t replaced_;
  const RowSource& rows_;
};

BegunHeap::BegunHeap(const Prepared& heap, const RowSource* rows) : recorded_{.heap = &heap, .rows = rows} {}
BegunHeap::BegunHeap(BegunHeap&&) noexcept = default;
BegunHeap::~BegunHeap() = default;

bool BegunHeap::begins_afresh(const BoundPolicy& policy) const {
  if (!recorded_.heap->initial || !keeps_free_memory(policy.spec)) return false;
  const NoRows none;
  return !policy.spec.name.starts_with("torch.") || !policy.run(*recorded_.heap, {.rows = &none}).resumed;
}

void BegunHeap::make_likely() {
  const Prepared& heap = *recorded_.heap;
  const Beginning likely = likely_beginning(*heap.initial, peak_live_of(heap, recorded_.rows));
  if (recorded_.rows == nullptr) {
    likely_heap_ = std::make_unique<Prepared>(with_beginning(heap, likely));
  } else {
    const Prepared beginning = only_beginning(heap, likely);
    likely_heap_ = std::make_unique<Prepared>(without_rows(beginning));
    likely_rows_ = std::make_unique<LateRows>(beginning, heap.initial->rows, *recorded_.rows);
  }
  likely_ = {.heap = likely_heap_.get(), .rows = likely_rows_.get()};
}

HeapRows BegunHeap::for_policy(const BoundPolicy& policy) {
  if (!begins_afresh(policy)) return recorded_;
  if (likely_.heap == nullptr) make_likely();
  return likely_;
}

std::vector<Prepared> begun_afresh(std::span<const Prepared> heaps) {
  std::vector<Prepared> begun;
  for (const Prepared& heap : heaps)
    begun.push_back(heap.initial ? with_beginning(heap, likely_beginning(*heap.initial, peak_live_of(heap, nullptr)))
                                 : heap);
  return begun;
}

bool any_late(std::span<const Prepared> heaps) {
  return std::ranges::any_of(heaps, [](const Prepared& heap) { return heap.initial.has_value(); });
}

void for_each_beginning(std::span<const Prepared> heaps,
                        const std::function<void(std::span<const Prepared>)>& try_heaps) {
  constexpr std::uint64_t most_orders = 8, most_rows = 1'000'000;  // in all of them
  if (!any_late(heaps)) return;
  std::uint64_t rows = 1;
  for (const Prepared& heap : heaps) rows += heap.count();
  const std::uint64_t orders = std::clamp<std::uint64_t>(most_rows / rows, 1, most_orders);
  std::vector<Prepared> begun(heaps.begin(), heaps.end());
  for (std::uint64_t run = 0; run < 2 * orders; ++run) {
    const Beginning beginning{.order = run / 2, .cached = run % 2 == 1 ? all_cached : 0_B};
    for (std::size_t h = 0; h < heaps.size(); ++h)
      if (heaps[h].initial) begun[h] = with_beginning(heaps[h], beginning);
    try_heaps(begun);
  }
}

std::optional<std::pair<Bytes, Bytes>> BeginningRange::wide() const {
  if (100 * most_.count <= 101 * least_.count) return std::nullopt;
  return std::pair(least_, most_);
}

LateRanges late_start_ranges(std::span<const ReplayResult> results, std::span<const Prepared> heaps,
                             const ReplayOptions& options) {
  LateRanges ranges;
  if (options.rows != nullptr) return ranges;
  ReplayOptions plain = options;
  plain.find_min_capacity = plain.placement_metrics = false;
  for (const Prepared& heap : heaps) {
    std::vector<PolicySpec> specs;
    std::vector<BeginningRange> peaks;
    for (const ReplayResult& r : results)
      if (heap.initial && r.heap == heap.heap && !r.resumed && keeps_free_memory(r.policy)) {
        specs.push_back(r.policy);
        peaks.emplace_back(r.peak_reserved);
      }
    if (specs.empty()) continue;
    for_each_beginning(std::span(&heap, 1), [&](std::span<const Prepared> begun) {
      const Result<std::vector<ReplayResult>> then = replay(begun, specs, plain);
      for (std::size_t i = 0; then && i < specs.size(); ++i)
        if (!(*then)[i].policy.name.empty()) peaks[i].add((*then)[i].peak_reserved);  // else no time was left
    });
    for (std::size_t i = 0; i < specs.size(); ++i)
      if (const auto wide = peaks[i].wide()) ranges[{specs[i].text(), heap.heap}] = *wide;
  }
  return ranges;
}

std::optional<std::pair<Bytes, Bytes>> range_of(const ReplayResult& result, const LateRanges& ranges) {
  const auto found = ranges.find({result.policy.text(), result.heap});
  if (result.resumed || found == ranges.end()) return std::nullopt;
  return found->second;
}

namespace {

std::optional<std::size_t> segment_at(std::span<const InitialSegment> segments, Address address) {
  const auto found = std::ranges::find_if(segments, [&](const InitialSegment& segment) {
    return address >= segment.address && address < segment.address + segment.size;
  });
  if (found == segments.end()) return std::nullopt;
  return static_cast<std::size_t>(found - segments.begin());
}

/// Moves `first`, and what is known to be older than it, before `second`. False if that contradicts what is known.
bool put_before(std::vector<std::size_t>& order, std::span<const std::pair<std::size_t, std::size_t>> older,
                std::size_t first, std::size_t second) {
  const auto begin = std::ranges::find(order, second);
  const auto end = std::ranges::find(order, first);
  if (begin == order.end() || end == order.end() || end <= begin) return false;
  std::set<std::size_t> moved{first};
  for (bool grows = true; grows;) {
    grows = false;
    for (const auto& [old, young] : older)
      if (moved.contains(young)) grows = moved.insert(old).second || grows;
  }
  if (moved.contains(second)) return false;
  std::stable_partition(begin, end + 1, [&](std::size_t each) { return moved.contains(each); });
  return true;
}

/// The memory that has an age of its own: a segment, or an expandable segment with all its mapped memory, by the number
/// of the first of its segments.
std::vector<std::size_t> aged_memory(std::span<const InitialSegment> segments) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < segments.size(); ++i)
    if (i == 0 || segments[i].range != segments[i - 1].range) order.push_back(i);
  return order;
}

std::optional<LateStart> ordered_by_block(const LateStart& start, const FreePlace& recorded,
                                          const FreePlace& replayed) {
  if (!recorded.made || !replayed.made) return std::nullopt;
  LateStart result = start;
  if (result.ages.made.empty()) result.ages.made = default_order(start.state.segments);
  if (!put_before(result.ages.made, start.older, *recorded.made, *replayed.made)) return std::nullopt;
  result.older.emplace_back(*recorded.made, *replayed.made);
  return result;
}

std::optional<LateStart> ordered_by_segment(const LateStart& start, Address recorded, Address replayed) {
  const std::vector<InitialSegment>& segments = start.state.segments;
  const auto old = segment_at(segments, recorded), young = segment_at(segments, replayed);
  if (!old || !young || segments[*old].range == segments[*young].range) return std::nullopt;
  // Numbers change with the order, so what is known is kept by address.
  const auto first_of = [&](Address range) {
    return static_cast<std::size_t>(std::ranges::find(segments, range, &InitialSegment::range) - segments.begin());
  };
  std::vector<std::pair<std::size_t, std::size_t>> older;
  for (const auto& [a, b] : start.older) older.emplace_back(first_of(Address{a}), first_of(Address{b}));
  std::vector<std::size_t> order = aged_memory(segments);
  if (!put_before(order, older, first_of(segments[*old].range), first_of(segments[*young].range))) return std::nullopt;
  LateStart result = start;
  result.older.emplace_back(segments[*old].range.value, segments[*young].range.value);
  std::size_t to = 0;
  for (const std::size_t first : order)
    for (std::size_t from = first; from < segments.size() && segments[from].range == segments[first].range;
         ++from, ++to) {
      result.state.segments[to] = segments[from];
      result.state.pool_stream[to] = start.state.pool_stream[from];
    }
  return result;
}

/// The free block begins later, by so much that it is too small for the request.
std::optional<LateStart> with_shorter(const LateStart& start, const FreePlace& free, Bytes wanted,
                                      const TorchSettings& settings) {
  const auto at = segment_at(start.state.segments, free.address);
  if (!at || free.size < wanted) return std::nullopt;
  const InitialSegment& segment = start.state.segments[*at];
  if (segment.small || segment.mapped) return std::nullopt;  // all that is left over is split off
  const Bytes more = free.size - wanted + (settings.leaves_exact() ? 1_B : TorchSettings::min_block);
  Address end = segment.address;
  for (std::size_t b = 0; b + 1 < segment.blocks.size(); ++b) {
    end = end + segment.blocks[b].size;
    if (end != free.address) continue;
    if (segment.blocks[b].use == InitialUse::free || segment.blocks[b + 1].use != InitialUse::free ||
        more > TorchSettings::max_small || segment.blocks[b + 1].size <= more)
      return std::nullopt;
    LateStart result = start;
    result.state.segments[*at].blocks[b].size += more;
    result.state.segments[*at].blocks[b + 1].size -= more;
    return result;
  }
  return std::nullopt;
}

/// What was released had been unused for `searches` more than what was not.
std::optional<LateStart> unused_for(const LateStart& start, std::span<const Address> released, std::uint64_t searches) {
  LateStart result = start;
  bool any = false;
  for (const Address address : released) {
    const auto at = segment_at(start.state.segments, address);
    if (!at || start.state.segments[*at].blocks.front().use != InitialUse::free) continue;
    any = true;
    result.ages.unused[address] += searches;
  }
  return any ? std::optional(result) : std::nullopt;
}

}  // namespace

std::vector<LateStart> LateStart::explanations(const LateDifference& difference, const TorchSettings& settings) const {
  std::vector<LateStart> result;
  const auto add = [&](std::optional<LateStart> start) {
    if (start) result.push_back(*std::move(start));
  };
  const std::optional<FreePlace>& recorded = difference.recorded;
  const std::optional<FreePlace>& replayed = difference.replayed;
  // An expandable block counts with the size it can grow to.
  if (recorded && replayed && (recorded->size == replayed->size || settings.expandable)) {
    if (settings.release.tie_break() == TorchRelease::TieBreak::block_counter)
      add(ordered_by_block(*this, *recorded, *replayed));
    if (settings.release.tie_break() == TorchRelease::TieBreak::segment_counter)
      add(ordered_by_segment(*this, recorded->address, replayed->address));
  }
  add(shortened(difference, settings));
  if (settings.garbage_collection_threshold > 0)
    for (const std::uint64_t searches : {1U, 16U, 256U, 4096U, 65'536U, 1U << 20U, 1U << 28U})
      add(unused_for(*this, difference.released, searches));
  return result;
}

std::optional<LateStart> LateStart::shortened(const LateDifference& difference, const TorchSettings& settings) const {
  if (!difference.replayed || difference.wanted == 0_B) return std::nullopt;
  return with_shorter(*this, *difference.replayed, difference.wanted, settings);
}

std::string unknown_of(const LateDifference& difference, const TorchSettings& settings) {
  if (settings.garbage_collection_threshold > 0 && (difference.wanted == 0_B || !difference.released.empty()))
    return "how long its free memory had been unused when it began, which garbage_collection_threshold asks for";
  if (difference.recorded && difference.replayed && difference.recorded->size == difference.replayed->size &&
      settings.release.tie_break() != TorchRelease::TieBreak::address)
    return "which of its free blocks of equal size was the oldest when it began";
  return "how large the blocks of its oldest allocations were, beyond what was requested";
}

}  // namespace memreel
