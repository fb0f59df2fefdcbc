#include "viewer/model/stack_weights.h"

#include <algorithm>
#include <utility>

#include "viewer/model/folded_series.h"
#include "viewer/model/heap_at.h"

namespace memreel::viewer {
namespace {

/// Sums weights by stack.
class Scales {
 public:
  explicit Scales(const Document& document) : document_(document), by_stack_(document.tables->stacks.size()) {}

  void add(std::uint32_t id) {
    StackWeight& weight = by_stack_[index(document_.stack_of(id))];
    const std::uint64_t size = document_.size_of(id).count;
    weight.bytes += size;
    ++weight.count;
    if (size >= weight.largest) {
      weight.largest = size;
      weight.example = id;
    }
  }

  std::vector<StackWeight> weights() && {
    std::vector<StackWeight> weights;
    for (std::size_t s = 0; s < by_stack_.size(); ++s) {
      if (by_stack_[s].count == 0) continue;
      by_stack_[s].stack = StackId{static_cast<std::uint32_t>(s)};
      weights.push_back(by_stack_[s]);
    }
    std::ranges::stable_sort(weights, std::ranges::greater{}, &StackWeight::bytes);
    return weights;
  }

 private:
  const Document& document_;
  std::vector<StackWeight> by_stack_;
};

}  // namespace

std::optional<std::vector<StackWeight>> weigh_allocations(const Document& document, std::span<const std::uint32_t> ids,
                                                          const Progress& progress) {
  Scales scales(document);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (i % (1U << 16U) == 0 && progress.cancelled()) return std::nullopt;
    scales.add(ids[i]);
  }
  return std::move(scales).weights();
}

std::optional<std::vector<StackWeight>> weigh_stacks(const Document& document, const WeightQuery& query,
                                                     const Progress& progress) {
  if (query.weighing == Weighing::folded)
    return weigh_folded(document, query.heap, query.begin, query.end, query.sieve.get(), progress);
  Scales scales(document);
  const auto passes = [&](std::uint32_t id) { return !query.sieve || query.sieve->passes(id); };
  if (query.weighing == Weighing::live_at_cursor || query.weighing == Weighing::peak) {
    std::uint32_t events = query.end_event;
    const HeapSeries* const series = document.series(query.heap);
    if (query.weighing == Weighing::peak && series != nullptr && query.end_event > query.first_event)
      events = document.highest(*series, Metric::live, query.first_event, query.end_event) + 1;
    for (const std::uint32_t id : held_at(document, query.heap, events))
      if (document.requested(id) >= events && passes(id)) scales.add(id);
  } else {
    const std::uint32_t begin = document.allocations_before(query.first_event);
    const std::uint32_t end = document.allocations_before(query.end_event);
    for (std::uint32_t id = begin; id < end; ++id) {
      if (id % (1U << 16U) == 0) {
        if (progress.cancelled()) return std::nullopt;
        progress.set(static_cast<double>(id - begin) / (end - begin));
      }
      if (document.heap_of(document.origin_of(id)) != query.heap || !passes(id)) continue;
      if (query.weighing == Weighing::allocated || document.requested(id) >= query.end_event) scales.add(id);
    }
  }
  return std::move(scales).weights();
}

}  // namespace memreel::viewer
