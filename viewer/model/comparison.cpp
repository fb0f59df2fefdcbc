// SPDX-License-Identifier: Apache-2.0
#include "viewer/model/comparison.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "analyzer/analysis/difference/difference.h"
#include "analyzer/describe/live_groups.h"
#include "analyzer/describe/own_frame.h"
#include "viewer/model/flame.h"
#include "viewer/model/heap_at.h"
#include "viewer/model/labels.h"

namespace memreel::viewer {
namespace {

struct Side {
  std::vector<StackId> stacks;
  std::unordered_map<StackId, StackWeight> weights;

  StackWeight of(StackId stack) const {
    const auto found = weights.find(stack);
    return found == weights.end() ? StackWeight{} : found->second;
  }
};

/// A sieve without its text, which applies to pairs of stacks. No stack has an address.
std::shared_ptr<const Sieve> without_text(const Moment& moment, const std::shared_ptr<const Classification>& known,
                                          const std::shared_ptr<const Sieve>& sieve) {
  if (!sieve || sieve->is_address()) return sieve;
  Filter filter = sieve->filter();
  filter.text.clear();
  return std::make_shared<const Sieve>(moment.document, std::move(filter), known);
}

std::optional<Side> side_of(const Moment& moment, const std::shared_ptr<const Sieve>& sieve, const Progress& progress) {
  const auto weights = weigh_stacks(
      *moment.document,
      {.weighing = Weighing::live_at_cursor, .heap = moment.heap, .end_event = moment.event, .sieve = sieve}, progress);
  if (!weights) return std::nullopt;
  Side side;
  for (const StackWeight& weight : *weights) {
    side.stacks.push_back(weight.stack);
    side.weights[weight.stack] = weight;
  }
  return side;
}

std::vector<Holding> held_by(const Side& side, const Tables& tables) {
  std::vector<Holding> held(tables.stacks.size());
  for (const auto& [stack, weight] : side.weights)
    held[index(stack)] = {.bytes = {weight.bytes}, .count = weight.count};
  return held;
}

/// Within one trace a stack matches itself.
std::vector<StackPair> pairs_of(const MomentPair& moments, const Side& a, const Side& b) {
  const Tables &tables_a = *moments.a.document->tables, &tables_b = *moments.b.document->tables;
  if (&tables_a != &tables_b) {
    const std::vector<Holding> held_a = held_by(a, tables_a), held_b = held_by(b, tables_b);
    return match_stacks(tables_a, a.stacks, tables_b, b.stacks, {.a = held_a, .b = held_b});
  }
  std::vector<StackPair> pairs;
  for (const StackId stack : a.stacks) pairs.emplace_back(stack, stack);
  for (const StackId stack : b.stacks)
    if (!a.weights.contains(stack)) pairs.emplace_back(stack, stack);
  return pairs;
}

/// When searching for an address, allocations match, not stacks.
bool passes(const SievePair& sieves, const StackPair& pair) {
  return sieves.a->is_address() || sieves.a->passes(pair.first) || sieves.b->passes(pair.second);
}

/// Sorts by the size of the change, in either direction. `of`: only this category; none: all.
std::vector<PlaceChange> places_of(const Purposes& a, const Purposes& b, std::optional<Category> of) {
  std::map<std::pair<Category, std::string>, PlaceChange> changes;
  for (const auto& [key, bytes] : a.live) changes[key].a = bytes;
  for (const auto& [key, bytes] : b.live) changes[key].b = bytes;
  std::vector<PlaceChange> list;
  for (auto& [key, change] : changes) {
    if (change.a == change.b || (of && key.first != *of)) continue;
    change.category = key.first;
    change.place = key.second;
    list.push_back(std::move(change));
  }
  std::ranges::stable_sort(list, std::ranges::greater{}, [](const PlaceChange& c) { return std::abs(c.change()); });
  return list;
}

/// Counts what passes `sieve` (null: all) apart from its category, and `stacks`. None when cancelled.
std::optional<Purposes> purposes_at(const Moment& moment, const Classification& known, const Sieve* sieve,
                                    const std::unordered_set<StackId>& stacks, const Progress& progress) {
  const Document& document = *moment.document;
  std::map<std::pair<Category, StackId>, Bytes> by_stack;
  for (const std::uint32_t id : held_at(document, moment.heap, moment.event)) {
    const StackId stack = document.stack_of(id);
    if (document.requested(id) < moment.event || !stacks.contains(stack)) continue;
    if (sieve == nullptr || sieve->passes_but_category(id))
      by_stack[{known.category(id), stack}] += document.size_of(id);
  }
  Purposes purposes;
  std::size_t seen = 0;
  for (const auto& [key, bytes] : by_stack) {
    if (seen++ % 1024 == 0 && progress.cancelled()) return std::nullopt;
    const auto& [category, stack] = key;
    // A stack added after the classification has no meaning yet.
    const bool is_known = index(stack) < known.categories->stacks().size();
    const std::string place =
        is_known ? holder_label(*document.tables, *known.categories, stack) : site_label(*document.tables, stack);
    purposes.live[{category, place}] += bytes;
  }
  return purposes;
}

}  // namespace

SideFacts facts_of(const Moment& moment, bool whole) {
  const Document& document = *moment.document;
  const HeapSeries* const series = document.series(moment.heap);
  if (series == nullptr) return {};
  const Metrics metrics = document.metrics_after(*series, moment.event);
  const std::uint32_t end = whole ? document.event_count() : moment.event;
  SideFacts facts{.reserved = {whole ? series->peak_reserved : value_of(metrics, Metric::reserved)},
                  .live = {value_of(metrics, Metric::live)},
                  .fragmentation = static_cast<double>(value_of(metrics, Metric::fragmentation)) / 1e6};
  const Columns& columns = document.columns;
  for (std::size_t i = 0; i < columns.failure.size(); ++i) {
    const std::uint32_t at = columns.other[columns.failure[i]].at;
    facts.failures += at < end && document.heap_of(document.trace->events.origin(at)) == moment.heap ? 1U : 0U;
  }
  // Each call begins or ends segments; unmapping the middle of a mapping does both.
  std::vector<std::uint32_t> calls;
  for (std::uint32_t i = 0; i < document.segment_count(); ++i) {
    const Segment segment = document.segment(i);
    if (document.heap_of(segment.origin) != moment.heap) continue;
    if (segment.begin < end) calls.push_back(segment.begin);
    if (segment.end != never && segment.end < end) calls.push_back(segment.end);
  }
  std::ranges::sort(calls);
  facts.driver_calls = static_cast<std::uint64_t>(std::unique(calls.begin(), calls.end()) - calls.begin());
  return facts;
}

std::optional<Comparison> compare(const MomentPair& moments, const ClassificationPair& known, const SievePair& sieves,
                                  const Progress& progress) {
  auto a = side_of(moments.a, nullptr, progress);
  auto b = a ? side_of(moments.b, nullptr, progress) : std::nullopt;
  if (!b) return std::nullopt;
  std::vector<StackPair> pairs = pairs_of(moments, *a, *b);
  SievePair rest;
  if (sieves.a && sieves.b) {
    std::erase_if(pairs, [&](const StackPair& pair) { return !passes(sieves, pair); });
    rest = {without_text(moments.a, known.a, sieves.a), without_text(moments.b, known.b, sieves.b)};
    a = side_of(moments.a, rest.a, progress);
    b = a ? side_of(moments.b, rest.b, progress) : std::nullopt;
    if (!b) return std::nullopt;
  }
  const bool whole = moments.a.document != moments.b.document;
  Comparison comparison{.facts_a = facts_of(moments.a, whole), .facts_b = facts_of(moments.b, whole)};
  std::unordered_set<StackId> stacks_a, stacks_b;
  for (const auto& [stack_a, stack_b] : pairs) {
    // Without a counterpart the stack is none, whose own memory belongs to another pair.
    const bool both_none = stack_a == StackId::none && stack_b == StackId::none;
    const bool has_a = stack_a != StackId::none || both_none, has_b = stack_b != StackId::none || both_none;
    if (has_a) stacks_a.insert(stack_a);
    if (has_b) stacks_b.insert(stack_b);
    const StackWeight in_a = has_a ? a->of(stack_a) : StackWeight{};
    const StackWeight in_b = has_b ? b->of(stack_b) : StackWeight{};
    comparison.listed_a += Bytes{in_a.bytes};
    comparison.listed_b += Bytes{in_b.bytes};
    if (in_a.bytes == in_b.bytes && in_a.count == in_b.count) continue;
    comparison.changes.push_back({.stack_a = stack_a,
                                  .stack_b = stack_b,
                                  .label = in_a.count != 0 ? stack_label(*moments.a.document->tables, stack_a)
                                                           : stack_label(*moments.b.document->tables, stack_b),
                                  .bytes_a = in_a.bytes,
                                  .bytes_b = in_b.bytes,
                                  .count_a = in_a.count,
                                  .count_b = in_b.count});
  }
  std::ranges::stable_sort(comparison.changes, std::ranges::greater{},
                           [](const StackChange& c) { return std::abs(c.change()); });
  if (!known.a || !known.b) return comparison;
  const auto purposes_a = purposes_at(moments.a, *known.a, rest.a.get(), stacks_a, progress);
  const auto purposes_b =
      purposes_a ? purposes_at(moments.b, *known.b, rest.b.get(), stacks_b, progress) : std::nullopt;
  if (!purposes_b) return std::nullopt;
  comparison.categories = category_changes(*purposes_a, *purposes_b);
  std::erase_if(comparison.categories, [](const CategoryChange& c) { return c.a == c.b; });
  comparison.places = places_of(*purposes_a, *purposes_b, sieves.a ? sieves.a->filter().category : std::nullopt);
  return comparison;
}

HeapId counterpart(const Document& document, HeapId heap, const Document& other) {
  const Tables &tables = *document.tables, &others = *other.tables;
  const Heap& wanted = tables[heap];
  HeapId found = HeapId::none;
  for (const HeapSeries& series : other.heaps) {
    const Heap& candidate = others[series.heap];
    if (candidate.device != wanted.device || candidate.level != wanted.level) continue;
    if (others[candidate.name] == tables[wanted.name]) return series.heap;
    if (found == HeapId::none) found = series.heap;
  }
  return found;
}

}  // namespace memreel::viewer
