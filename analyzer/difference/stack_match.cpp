// SPDX-License-Identifier: Apache-2.0
#include "analyzer/difference/stack_match.h"

#include <algorithm>
#include <functional>
#include <string_view>
#include <tuple>
#include <utility>

#include "formats/model/flat_map.h"
#include "formats/model/paths.h"

namespace memreel {
namespace {

std::uint64_t combine(std::uint64_t hash, std::uint64_t value) { return mix_bits(hash * 31 + value); }
std::uint64_t hash_of(std::string_view text) { return std::hash<std::string_view>{}(text); }

/// Two identities of every stack of a table: one down to the line, and one that survives edits and moved checkouts.
class Identities {
 public:
  explicit Identities(const Tables& tables) : exact_(tables.stacks.size()), loose_(tables.stacks.size()) {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> frames;
    frames.reserve(tables.frames.size());
    for (const Frame& frame : tables.frames) {
      const std::string_view file = tables[frame.file];
      const std::uint64_t place =
          combine(hash_of(tables[frame.function]), hash_of(base_name(tables[tables[frame.module].path])));
      // A function name says more than a module; an unresolved frame has nothing else.
      frames.emplace_back(combine(combine(combine(place, hash_of(file)), frame.line), frame.module_offset),
                          combine(place, hash_of(base_name(file))));
    }
    // A caller has a smaller id, so its identity is known.
    for (std::size_t i = 1; i < tables.stacks.size(); ++i) {
      const Stack& stack = tables.stacks[i];
      const auto& [exact, loose] = frames[index(stack.frame)];
      exact_[i] = combine(exact_[index(stack.caller)], exact);
      loose_[i] = combine(loose_[index(stack.caller)], loose);
    }
  }

  std::uint64_t exact(StackId id) const { return exact_[index(id)]; }
  std::uint64_t loose(StackId id) const { return loose_[index(id)]; }

 private:
  std::vector<std::uint64_t> exact_, loose_;
};

/// Orders stacks of equal loose identity by their lines and offsets, innermost first.
bool lines_before(const Tables& tables, StackId a, StackId b) {
  for (; a != StackId::none && b != StackId::none; a = tables[a].caller, b = tables[b].caller) {
    const Frame& frame_a = tables[tables[a].frame];
    const Frame& frame_b = tables[tables[b].frame];
    const auto place_a = std::tie(frame_a.line, frame_a.module_offset);
    const auto place_b = std::tie(frame_b.line, frame_b.module_offset);
    if (place_a != place_b) return place_a < place_b;
  }
  return a < b;
}

/// Pairs items of equal identity, in order within it; leaves items without a partner in `a` and `b`.
template <class Identity, class Before>
void take_pairs(std::vector<StackId>& a, std::vector<StackId>& b, Identity identity, Before before,
                std::vector<StackPair>& pairs) {
  const auto sort = [&](std::vector<StackId>& stacks, int side) {
    std::sort(stacks.begin(), stacks.end(), [&](StackId x, StackId y) {
      const std::uint64_t of_x = identity(side, x);
      const std::uint64_t of_y = identity(side, y);
      return of_x != of_y ? of_x < of_y : before(side, x, y);
    });
  };
  sort(a, 0);
  sort(b, 1);
  std::vector<StackId> left_a, left_b;
  std::size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    const std::uint64_t of_a = identity(0, a[i]);
    const std::uint64_t of_b = identity(1, b[j]);
    if (of_a == of_b)
      pairs.emplace_back(a[i++], b[j++]);
    else if (of_a < of_b)
      left_a.push_back(a[i++]);
    else
      left_b.push_back(b[j++]);
  }
  left_a.insert(left_a.end(), a.begin() + static_cast<std::ptrdiff_t>(i), a.end());
  left_b.insert(left_b.end(), b.begin() + static_cast<std::ptrdiff_t>(j), b.end());
  a = std::move(left_a);
  b = std::move(left_b);
}

}  // namespace

std::vector<StackPair> match_stacks(const Tables& tables_a, std::span<const StackId> a, const Tables& tables_b,
                                    std::span<const StackId> b) {
  const Identities of_a(tables_a);
  const Identities of_b(tables_b);
  std::vector<StackId> left_a(a.begin(), a.end());
  std::vector<StackId> left_b(b.begin(), b.end());
  std::vector<StackPair> pairs;
  take_pairs(
      left_a, left_b, [&](int side, StackId id) { return (side == 0 ? of_a : of_b).exact(id); },
      [](int, StackId x, StackId y) { return x < y; }, pairs);
  take_pairs(
      left_a, left_b, [&](int side, StackId id) { return (side == 0 ? of_a : of_b).loose(id); },
      [&](int side, StackId x, StackId y) { return lines_before(side == 0 ? tables_a : tables_b, x, y); }, pairs);
  for (const StackId id : left_a) pairs.emplace_back(id, StackId::none);
  for (const StackId id : left_b) pairs.emplace_back(StackId::none, id);
  return pairs;
}

}  // namespace memreel
