// SPDX-License-Identifier: Apache-2.0
// The offline placement problem, as seen by the planners: every lifetime is known.
//
// Time is cut into sections: a section begins where something is allocated after something was freed. Two buffers share
// a section exactly if they are alive at the same time, and there are at most as many sections as times of begin.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "formats/model/units.h"

namespace memreel::plan {

/// From `lower` up to, but not including, `upper`, in any unit of time.
struct TimeRange {
  std::uint64_t lower = 0;
  std::uint64_t upper = 0;  // > lower

  friend auto operator<=>(const TimeRange&, const TimeRange&) = default;
};

/// Memory needed from `lower` up to, but not including, `upper`.
struct Buffer {
  std::uint64_t lower = 0;
  std::uint64_t upper = 0;  // > lower
  Bytes size;
  /// When others may use the memory in between: ascending, apart from each other, and within the lifetime.
  std::vector<TimeRange> gaps = {};
  Bytes align = 1_B;                           // of its offset, a power of two; that of the plan is for all
  std::optional<Bytes> offset = std::nullopt;  // where it has to lie, aligned

  bool is_fixed() const { return offset.has_value(); }
};

/// The first and last section in which a buffer is alive.
struct Lifetime {
  std::uint32_t first = 0, last = 0;

  std::uint32_t length() const { return last - first + 1; }
  bool overlaps(const Lifetime& other) const { return first <= other.last && other.first <= last; }
  friend bool operator==(const Lifetime&, const Lifetime&) = default;
};

struct Problem {
  std::vector<Lifetime> lifetimes;       // by buffer, with its gaps
  std::vector<std::uint64_t> durations;  // by buffer, in units of time, without its gaps
  std::vector<Bytes> sizes;              // rounded up
  std::uint32_t section_count = 0;
  /// The highest sum of sizes alive at one time, LOAD in the literature: no placement needs less.
  Bytes load;
  Bytes largest;  // size of the largest buffer, hmax

  std::uint32_t count() const { return static_cast<std::uint32_t>(sizes.size()); }
  /// How many buffers are alive in a section.
  std::uint64_t mean_alive() const;

  /// What its gaps leave of a lifetime, in order of time.
  std::span<const Lifetime> pieces(std::uint32_t buffer) const {
    if (first_piece.empty()) return {&lifetimes[buffer], 1};
    return std::span(all_pieces).subspan(first_piece[buffer], first_piece[buffer + 1] - first_piece[buffer]);
  }
  void for_each_section(std::uint32_t buffer, const auto& visit) const {
    for (const Lifetime& piece : pieces(buffer))
      for (std::uint32_t section = piece.first; section <= piece.last; ++section) visit(section);
  }
  bool alive_in(std::uint32_t buffer, std::uint32_t section) const;
  bool overlap(std::uint32_t a, std::uint32_t b) const;
  /// Whether exchanging them changes nothing.
  bool equal(std::uint32_t a, std::uint32_t b) const;

  std::vector<Lifetime> all_pieces;        // of pieces(); empty if there are no gaps
  std::vector<std::uint32_t> first_piece;  // by buffer
};

/// Rounds sizes up to `align`, a power of two; offsets that are sums of them are then also aligned. A buffer of no
/// bytes or no time gets the minimum of either. The sizes must add up to less than 2^64.
Problem make_problem(std::span<const Buffer> buffers, Bytes align);

/// Where each buffer lies.
struct Placement {
  std::vector<Bytes> offsets;
  Bytes peak;  // highest end of a buffer
};

// Checks plans, independently of how they are made.

struct Requirements {
  Bytes align = 1_B;
  std::optional<Bytes> capacity = std::nullopt;
};

/// The first fault of a plan: a buffer without an offset, one that is not where it has to be or not aligned, an end
/// above the capacity, two buffers that share a byte while both are in use. None if there is none. Sizes are as given,
/// not rounded.
std::optional<std::string> fault_of(std::span<const Buffer> buffers, std::span<const Bytes> offsets,
                                    const Requirements& requirements);

}  // namespace memreel::plan
