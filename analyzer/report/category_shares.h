// What is live at an instant, by what it is for.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "analyzer/category/classify.h"
#include "analyzer/history/lifetimes.h"
#include "formats/model/trace.h"

namespace memreel {

/// The call of a module that a stack lies in, else the place that explains, else "(no stack)": "forward
/// (modeling_gpt2.py:240)". Files are without directories: one line has room for little more.
std::string holder_label(const Tables& tables, const Categories& categories, StackId stack);

struct CategoryShare {
  struct Holder {
    std::string label;  // a module's call; else a line of the program
    Bytes bytes;
  };

  Category category = Category::unknown;
  Bytes bytes;
  std::uint64_t count = 0;
  Evidence evidence = Evidence::none;  // of most of its bytes
  std::vector<Holder> holders;         // largest first
};

/// The allocations of `heap` that are live after the first `events` events, largest category first. Categories that
/// nothing has are left out.
std::vector<CategoryShare> category_shares(const Trace& trace, const std::vector<Lifetime>& lives,
                                           const Categories& categories, HeapId heap, std::uint64_t events);

/// Whether anything is known of any of it.
bool says_something(std::span<const CategoryShare> shares);

}  // namespace memreel
