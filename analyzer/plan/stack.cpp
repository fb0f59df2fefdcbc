// SPDX-License-Identifier: Apache-2.0
#include "analyzer/plan/stack.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace memreel::plan {

std::vector<Bytes> bytes_alive(const Problem& problem) {
  std::vector<Bytes> begin(problem.section_count), end(problem.section_count + 1);
  for (std::uint32_t b = 0; b < problem.count(); ++b) {
    begin[problem.lifetimes[b].first] += problem.sizes[b];
    end[problem.lifetimes[b].last + 1] += problem.sizes[b];
  }
  Bytes alive;
  for (std::uint32_t section = 0; section < problem.section_count; ++section) {
    alive += begin[section];
    alive -= end[section];
    begin[section] = alive;
  }
  return begin;
}

std::vector<std::uint32_t> stack_at(const Problem& problem, std::uint32_t section, double balance,
                                    std::vector<Bytes>& offsets) {
  std::vector<std::uint32_t> stack;
  for (std::uint32_t b = 0; b < problem.count(); ++b)
    if (problem.lifetimes[b].overlaps({section, section})) stack.push_back(b);
  std::ranges::stable_sort(stack, std::less{}, [&](std::uint32_t b) {
    const auto [first, last] = problem.lifetimes[b];
    const bool is_old = section - first >= balance * (last - first);
    return std::pair{is_old, is_old ? ~last : first};
  });
  Bytes top;
  for (const std::uint32_t b : stack) {
    offsets[b] = top;
    top += problem.sizes[b];
  }
  return stack;
}

}  // namespace memreel::plan
