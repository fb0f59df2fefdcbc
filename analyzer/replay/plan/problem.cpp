// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/plan/problem.h"

#include <algorithm>
#include <iterator>
#include <map>

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

namespace {

struct Use {
  std::uint64_t time = 0;
  bool begins = false;  // ends come first
  std::size_t buffer = 0;

  friend auto operator<=>(const Use&, const Use&) = default;
};

std::vector<Use> uses(std::span<const Buffer> buffers) {
  std::vector<Use> list;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const Buffer& buffer = buffers[i];
    list.push_back({buffer.lower, true, i});
    for (const TimeRange& gap : buffer.gaps) {
      list.push_back({gap.lower, false, i});
      list.push_back({gap.upper, true, i});
    }
    list.push_back({std::max(buffer.upper, buffer.lower + 1), false, i});
  }
  std::sort(list.begin(), list.end());
  return list;
}

std::string name_of(std::size_t buffer) { return "buffer " + std::to_string(buffer); }

}  // namespace

std::optional<std::string> fault_of(std::span<const Buffer> buffers, std::span<const Bytes> offsets,
                                    const Requirements& requirements) {
  if (offsets.size() != buffers.size())
    return std::to_string(buffers.size()) + " buffers have " + std::to_string(offsets.size()) + " offsets";
  const auto size = [&](std::size_t i) { return std::max(buffers[i].size, 1_B); };
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const Bytes align = std::max(requirements.align, buffers[i].align);
    if (offsets[i].count % align.count != 0)
      return name_of(i) + " is at " + std::to_string(offsets[i].count) + ", not aligned to " +
             std::to_string(align.count);
    if (buffers[i].offset && *buffers[i].offset != offsets[i])
      return name_of(i) + " is at " + std::to_string(offsets[i].count) + ", not at " +
             std::to_string(buffers[i].offset->count);
    if (requirements.capacity && (size(i) > *requirements.capacity || offsets[i] > *requirements.capacity - size(i)))
      return name_of(i) + " ends above the capacity";
  }
  std::map<Bytes, std::size_t> in_use;  // by offset
  for (const Use& use : uses(buffers)) {
    const std::size_t i = use.buffer;
    if (!use.begins) {
      in_use.erase(offsets[i]);
      continue;
    }
    const auto above = in_use.lower_bound(offsets[i]);
    if (above != in_use.end() && above->first < offsets[i] + size(i))
      return name_of(i) + " overlaps " + name_of(above->second);
    if (above != in_use.begin()) {
      const std::size_t below = std::prev(above)->second;
      if (offsets[below] + size(below) > offsets[i]) return name_of(i) + " overlaps " + name_of(below);
    }
    in_use.emplace(offsets[i], i);
  }
  return std::nullopt;
}

}  // namespace memreel::plan
