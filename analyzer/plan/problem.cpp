// SPDX-License-Identifier: Apache-2.0
#include "analyzer/plan/problem.h"

#include <algorithm>

namespace memreel::plan {
namespace {

struct Change {
  std::uint64_t time = 0;
  std::uint32_t piece = 0;
  bool begins = false;

  /// What ends at an instant makes room for what begins there.
  friend bool operator<(const Change& a, const Change& b) {
    if (a.time != b.time) return a.time < b.time;
    return a.begins != b.begins ? !a.begins : a.piece < b.piece;
  }
};

/// Calls `visit` with each time at which the buffer is in use.
void for_each_use(const Buffer& buffer, const auto& visit) {
  std::uint64_t lower = buffer.lower;
  const std::uint64_t upper = std::max(buffer.upper, buffer.lower + 1);
  for (const TimeRange& gap : buffer.gaps) {
    if (gap.lower > lower) visit(TimeRange{lower, gap.lower});
    lower = gap.upper;
  }
  if (lower < upper) visit(TimeRange{lower, upper});
}

}  // namespace

std::uint64_t Problem::mean_alive() const {
  std::uint64_t alive = 0;  // in all sections
  for (const Lifetime& lifetime : lifetimes) alive += lifetime.length();
  return alive / std::max(section_count, 1U);
}

bool Problem::alive_in(std::uint32_t buffer, std::uint32_t section) const {
  return std::ranges::any_of(pieces(buffer), [&](const Lifetime& piece) { return piece.overlaps({section, section}); });
}

bool Problem::overlap(std::uint32_t a, std::uint32_t b) const {
  if (!lifetimes[a].overlaps(lifetimes[b])) return false;
  if (first_piece.empty()) return true;
  return std::ranges::any_of(pieces(a), [&](const Lifetime& of_a) {
    return std::ranges::any_of(pieces(b), [&](const Lifetime& of_b) { return of_a.overlaps(of_b); });
  });
}

bool Problem::equal(std::uint32_t a, std::uint32_t b) const {
  return sizes[a] == sizes[b] && std::ranges::equal(pieces(a), pieces(b));
}

Problem make_problem(std::span<const Buffer> buffers, Bytes align) {
  Problem problem;
  problem.sizes.reserve(buffers.size());
  problem.durations.reserve(buffers.size());
  std::vector<Change> changes;
  changes.reserve(2 * buffers.size());
  std::vector<std::uint32_t> buffer_of, first_piece;
  for (std::uint32_t b = 0; b < buffers.size(); ++b) {
    problem.sizes.push_back(round_up(std::max(buffers[b].size, 1_B), align));
    problem.largest = std::max(problem.largest, problem.sizes.back());
    first_piece.push_back(static_cast<std::uint32_t>(buffer_of.size()));
    std::uint64_t& duration = problem.durations.emplace_back();
    for_each_use(buffers[b], [&](const TimeRange& use) {
      const auto piece = static_cast<std::uint32_t>(buffer_of.size());
      changes.push_back({.time = use.lower, .piece = piece, .begins = true});
      changes.push_back({.time = use.upper, .piece = piece});
      duration += use.upper - use.lower;
      buffer_of.push_back(b);
    });
  }
  first_piece.push_back(static_cast<std::uint32_t>(buffer_of.size()));
  std::ranges::sort(changes, std::less{});

  std::vector<Lifetime> pieces(buffer_of.size());
  Bytes live;
  bool freed = false;
  std::uint32_t section = 0;
  for (const Change& change : changes) {
    Lifetime& piece = pieces[change.piece];
    if (change.begins) {
      if (freed) ++section;
      freed = false;
      piece.first = section;
      live += problem.sizes[buffer_of[change.piece]];
      problem.load = std::max(problem.load, live);
    } else {
      freed = true;
      piece.last = section;
      live -= problem.sizes[buffer_of[change.piece]];
    }
  }
  problem.section_count = buffers.empty() ? 0 : section + 1;
  if (pieces.size() == buffers.size()) {
    problem.lifetimes = std::move(pieces);
    return problem;
  }
  for (std::size_t b = 0; b < buffers.size(); ++b)
    problem.lifetimes.push_back({pieces[first_piece[b]].first, pieces[first_piece[b + 1] - 1].last});
  problem.all_pieces = std::move(pieces);
  problem.first_piece = std::move(first_piece);
  return problem;
}

}  // namespace memreel::plan
