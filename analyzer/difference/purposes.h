// What a heap holds for which purpose, compared between two runs or instants.
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
  /// The program repeats forward passes in its backward pass (gradient checkpointing), at whatever instant.
  bool recomputes = false;
};

/// After the first `events` events. `categories`: of the trace.
Purposes purposes_of(const Trace& trace, const Categories& categories, const std::vector<Lifetime>& lives, HeapId heap,
                     std::uint64_t events);

struct CategoryChange {
  Category category = Category::unknown;
  Bytes a, b;
  std::string place;  // that changed most in the direction of the whole; empty: none did
  Bytes place_a, place_b;
};

/// Categories that either holds, most change first, either way. Empty where nothing is known of either.
std::vector<CategoryChange> category_changes(const Purposes& a, const Purposes& b);

}  // namespace memreel
