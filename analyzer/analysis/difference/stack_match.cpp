// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/difference/stack_match.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <tuple>

#include "analyzer/describe/own_frame.h"
#include "formats/model/flat_map.h"
#include "formats/model/frame_kind.h"

namespace memreel {
namespace {

std::uint64_t combine(std::uint64_t hash, std::uint64_t value) { return mix_bits(hash * 31 + value); }
std::uint64_t hash_of(std::string_view text) { return std::hash<std::string_view>{}(text); }

/// Identities of every stack of a table: one down to the line, one that survives edits and moved checkouts, and one
/// that takes all cells of notebooks for the same.
class Identities {
 public:
  explicit Identities(const Tables& tables)
      : exact_(tables.stacks.size(), no_stack), loose_(tables.stacks.size()), in_any_cell_(tables.stacks.size()) {
    struct Place {
      std::uint64_t exact = 0, loose = 0, in_any_cell = 0;
    };
    std::vector<Place> frames;
    frames.reserve(tables.frames.size());
    for (const Frame& frame : tables.frames) {
      const std::string_view file = tables[frame.file];
      const std::uint64_t place =
          combine(hash_of(tables[frame.function]), hash_of(base_name(tables[tables[frame.module].path])));
      // A function name says more than a module; an unresolved frame has nothing else.
      // Generated code has another file with each build.
      const bool is_generated = frame.owner == CodeOwner::generated;
      frames.push_back(
          {.exact = combine(combine(combine(place, hash_of(file)), frame.line), frame.module_offset),
           .loose = combine(place, is_generated ? 0 : hash_of(base_name(file))),
           .in_any_cell = combine(place, is_generated || is_notebook_cell(file) ? 0 : hash_of(base_name(file)))});
    }
    // A caller has a smaller id, so its identity is known.
    for (std::size_t i = 1; i < tables.stacks.size(); ++i) {
      const Stack& stack = tables.stacks[i];
      const Place& place = frames[index(stack.frame)];
      exact_[i] = combine(exact_[index(stack.caller)], place.exact);
      loose_[i] = combine(loose_[index(stack.caller)], place.loose);
      in_any_cell_[i] = combine(in_any_cell_[index(stack.caller)], place.in_any_cell);
    }
  }

  std::uint64_t exact(StackId id) const { return exact_[index(id)]; }
  std::uint64_t loose(StackId id) const { return loose_[index(id)]; }
  std::uint64_t in_any_cell(StackId id) const { return in_any_cell_[index(id)]; }

 private:
  static constexpr std::uint64_t no_stack = 1;  // not 0: it matches itself

  std::vector<std::uint64_t> exact_, loose_, in_any_cell_;
};

/// Orders stacks by their lines and offsets, innermost first.
bool lines_before(const Tables& tables, StackId x, StackId y) {
  StackId a = x, b = y;
  for (; a != b && a != StackId::none && b != StackId::none; a = tables[a].caller, b = tables[b].caller) {
    const Frame& frame_a = tables[tables[a].frame];
    const Frame& frame_b = tables[tables[b].frame];
    const auto place_a = std::tie(frame_a.line, frame_a.module_offset);
    const auto place_b = std::tie(frame_b.line, frame_b.module_offset);
    if (place_a != place_b) return place_a < place_b;
  }
  return a != b ? a == StackId::none : x < y;
}

/// One side of a match.
struct MatchSide {
  const Tables& tables;
  std::span<const Holding> held;  // by StackId; empty if it does not matter
  Identities identities{tables};
  std::vector<StackId> left{};  // without a partner so far

  /// Of `identity`, what holds the same; 0 for 0.
  std::uint64_t with_holding(std::uint64_t identity, StackId id) const {
    const Holding& of = held[index(id)];
    return identity == 0 ? 0 : combine(combine(identity, of.bytes.count), of.count);
  }
};

/// The function of the program that requested memory, in its file, and the operation that it called; 0 if it is not
/// known. An edit within the function keeps these. A cell of a notebook is not one function.
std::uint64_t function_of(const Tables& tables, StackId stack) {
  const std::vector<FrameText> frames = frames_of(tables, stack);
  const FrameText place = explaining_frame(frames);
  if (place.function.empty() || place.file.empty() || is_notebook_cell(place.file)) return 0;
  const auto outermost = std::ranges::find(frames.rbegin(), frames.rend(), FrameKind::operation, &FrameText::kind);
  const std::string operation =
      outermost == frames.rend() ? "" : display_name(FrameKind::operation, outermost->function);
  return combine(combine(hash_of(place.function), hash_of(base_name(place.file))), hash_of(operation));
}

/// Pairs stacks of equal identity, in the order of their lines. Leaves those without a partner, and of identity 0.
/// `identity`: of a side and its stack.
template <class Identity>
void take_pairs(MatchSide& a, MatchSide& b, const Identity& identity, std::vector<StackPair>& pairs) {
  const auto keyed = [&](const MatchSide& side) {
    std::vector<std::pair<std::uint64_t, StackId>> stacks;
    stacks.reserve(side.left.size());
    for (const StackId id : side.left) stacks.emplace_back(identity(side, id), id);
    std::ranges::sort(stacks, [&](const auto& x, const auto& y) {
      return x.first != y.first ? x.first < y.first : lines_before(side.tables, x.second, y.second);
    });
    return stacks;
  };
  const auto of_a = keyed(a), of_b = keyed(b);
  a.left.clear();
  b.left.clear();
  auto at_a = of_a.begin();
  auto at_b = of_b.begin();
  while (at_a != of_a.end() && at_b != of_b.end()) {
    if (at_a->first == at_b->first && at_a->first != 0)
      pairs.emplace_back((at_a++)->second, (at_b++)->second);
    else if (at_a->first <= at_b->first)
      a.left.push_back((at_a++)->second);
    else
      b.left.push_back((at_b++)->second);
  }
  for (; at_a != of_a.end(); ++at_a) a.left.push_back(at_a->second);
  for (; at_b != of_b.end(); ++at_b) b.left.push_back(at_b->second);
}

/// How many stacks of each side have no partner, by identity.
template <class Identity>
std::map<std::uint64_t, std::array<std::size_t, 2>> count_left(const MatchSide& a, const MatchSide& b,
                                                               const Identity& identity) {
  std::map<std::uint64_t, std::array<std::size_t, 2>> counts;
  for (const StackId id : a.left) ++counts[identity(a, id)][0];
  for (const StackId id : b.left) ++counts[identity(b, id)][1];
  return counts;
}

/// Pairs stacks whose lines moved. Of as many lines as before, the order tells which is which; of more or fewer, first
/// what they hold, if it is known.
void take_moved(MatchSide& a, MatchSide& b, bool knows_held, std::vector<StackPair>& pairs) {
  const auto loose = [](const MatchSide& side, StackId id) { return side.identities.loose(id); };
  if (knows_held) {
    const auto counts = count_left(a, b, loose);
    const auto if_unequal = [&](const MatchSide& side, StackId id) {
      const auto [of_a, of_b] = counts.at(loose(side, id));
      return of_a != of_b ? side.with_holding(loose(side, id), id) : 0;
    };
    take_pairs(a, b, if_unequal, pairs);
  }
  take_pairs(a, b, loose, pairs);
}

/// Pairs code that an edit changed, by what it holds.
void take_edited(MatchSide& a, MatchSide& b, std::vector<StackPair>& pairs) {
  const auto in_any_cell = [](const MatchSide& side, StackId id) { return side.identities.in_any_cell(id); };
  take_pairs(
      a, b, [&](const MatchSide& side, StackId id) { return side.with_holding(in_any_cell(side, id), id); }, pairs);

  const auto counts = count_left(a, b, in_any_cell);
  const auto if_only = [&](const MatchSide& side, StackId id) {
    const std::uint64_t identity = in_any_cell(side, id);
    const bool is_only = counts.at(identity) == std::array<std::size_t, 2>{1, 1};
    return is_only && function_of(side.tables, id) != 0 ? identity : 0;
  };
  take_pairs(a, b, if_only, pairs);

  take_pairs(
      a, b, [](const MatchSide& side, StackId id) { return side.with_holding(function_of(side.tables, id), id); },
      pairs);
}

}  // namespace

std::vector<StackPair> match_stacks(const Tables& tables_a, std::span<const StackId> a, const Tables& tables_b,
                                    std::span<const StackId> b, const HeldByStack& held) {
  MatchSide of_a{.tables = tables_a, .held = held.a, .left = {a.begin(), a.end()}};
  MatchSide of_b{.tables = tables_b, .held = held.b, .left = {b.begin(), b.end()}};
  const bool knows_held = !held.a.empty() && !held.b.empty();
  std::vector<StackPair> pairs;
  take_pairs(
      of_a, of_b, [](const MatchSide& side, StackId id) { return side.identities.exact(id); }, pairs);
  take_moved(of_a, of_b, knows_held, pairs);
  if (knows_held) take_edited(of_a, of_b, pairs);
  for (const StackId id : of_a.left) pairs.emplace_back(id, StackId::none);
  for (const StackId id : of_b.left) pairs.emplace_back(StackId::none, id);
  return pairs;
}

}  // namespace memreel
