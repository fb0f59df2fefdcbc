// Live memory at an instant, by category.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "analyzer/category/classify.h"
#include "analyzer/history/lifetimes.h"
#include "formats/model/trace.h"

namespace memreel {

/// The module call that a stack lies in, else its explaining frame, else "(no stack)": "forward
/// (modeling_gpt2.py:240)". Files have no directories, because lines are short.
std::string holder_label(const Tables& tables, const Categories& categories, StackId stack);

struct CategoryShare {
  struct Holder {
    std::string label;  // a module call; else a line of the program
    Bytes bytes;
  };

  Category category = Category::unknown;
  Bytes bytes;
  std::uint64_t count = 0;
  Evidence evidence = Evidence::none;  // of most of its bytes
  // Of activations in a program without a backward pass: the graph that the running forward pass keeps, and those that
  // earlier ones left.
  Bytes graph, earlier_graphs;
  std::vector<Holder> holders;  // largest first
};

/// The allocations of `heap` that are live after the first `events` events, largest category first. Omits empty
/// categories.
std::vector<CategoryShare> category_shares(const Trace& trace, const std::vector<Lifetime>& lives,
                                           const Categories& categories, HeapId heap, std::uint64_t events);

/// Whether the category of any of it is known.
bool says_something(std::span<const CategoryShare> shares);

}  // namespace memreel
