// A heap's memory by category, compared between two runs or instants.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/category/classify.h"
#include "analyzer/history/lifetimes.h"
#include "formats/model/trace.h"

namespace memreel {

/// Live bytes of one heap at an instant.
struct Purposes {
  std::map<std::pair<Category, std::string>, Bytes> live;  // by category and the place that made it (labels.h)
  /// The program repeats forward passes in its backward pass (gradient checkpointing), at any instant.
  bool recomputes = false;
};

/// After the first `events` events. `categories`: of the trace.
Purposes purposes_of(const Trace& trace, const Categories& categories, const std::vector<Lifetime>& lives, HeapId heap,
                     std::uint64_t events);

struct CategoryChange {
  Category category = Category::unknown;
  Bytes a, b;
  std::string place;  // with the largest change in the direction of the whole; empty: none
  Bytes place_a, place_b;
};

/// Categories that either side holds, largest change first, in either direction. Empty if nothing is known of either.
std::vector<CategoryChange> category_changes(const Purposes& a, const Purposes& b);

}  // namespace memreel
