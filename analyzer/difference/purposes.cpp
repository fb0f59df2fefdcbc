#include "analyzer/difference/purposes.h"

#include <algorithm>
#include <cstdlib>

#include "analyzer/report/category_shares.h"

namespace memreel {
namespace {

std::int64_t growth(Bytes a, Bytes b) { return static_cast<std::int64_t>(b.count - a.count); }

}  // namespace

Purposes purposes_of(const Trace& trace, const Categories& categories, const std::vector<Lifetime>& lives, HeapId heap,
                     std::uint64_t events) {
  std::map<std::pair<Category, StackId>, Bytes> by_stack;
  for (std::uint32_t a = 0; a < lives.size(); ++a) {
    const std::uint32_t begin = lives[a].begin;
    if (!lives[a].live_after(events) || trace.tables[trace.events.origin[begin]].heap != heap) continue;
    by_stack[{categories.category(AllocationId{a}), trace.events.stack[begin]}] += trace.events.size[begin];
  }
  Purposes purposes;
  for (const auto& [key, bytes] : by_stack)
    purposes.live[{key.first, holder_label(trace.tables, categories, key.second)}] += bytes;
  purposes.recomputes =
      std::ranges::find(categories.evidence, Evidence::recomputed_for_backward) != categories.evidence.end();
  return purposes;
}

std::vector<CategoryChange> category_changes(const Purposes& a, const Purposes& b) {
  std::map<Category, CategoryChange> changes;
  for (const auto& [key, bytes] : a.live) changes[key.first].a += bytes;
  for (const auto& [key, bytes] : b.live) changes[key.first].b += bytes;
  if (std::ranges::all_of(changes, [](const auto& entry) { return entry.first == Category::unknown; })) return {};

  std::map<std::pair<Category, std::string>, std::pair<Bytes, Bytes>> places;
  for (const auto& [key, bytes] : a.live) places[key].first = bytes;
  for (const auto& [key, bytes] : b.live) places[key].second = bytes;
  for (const auto& [key, held] : places) {
    CategoryChange& change = changes[key.first];
    const std::int64_t sign = growth(change.a, change.b) < 0 ? -1 : 1;
    if (sign * growth(held.first, held.second) <= sign * growth(change.place_a, change.place_b)) continue;
    change.place = key.second;
    change.place_a = held.first;
    change.place_b = held.second;
  }
  std::vector<CategoryChange> list;
  for (auto& [category, change] : changes) {
    change.category = category;
    list.push_back(std::move(change));
  }
  std::ranges::stable_sort(list, std::ranges::greater{},
                           [](const CategoryChange& change) { return std::abs(growth(change.a, change.b)); });
  return list;
}

}  // namespace memreel
