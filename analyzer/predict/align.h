// SPDX-License-Identifier: Apache-2.0
// Matches the requests of two recordings of the same program at different sizes.
//
// The order in which a program requests memory hardly depends on the size of its data; what a library requests inside a
// call may (workspaces of the algorithm it chose), and loops may be longer. So the two sequences are aligned as a diff
// aligns texts. Requests correspond only if the same call stack made them; among those, an alignment is the better the
// more sizes are equal or grew by a power of the parameters' ratio, the more lifetimes are alike, and the fewer
// stretches are skipped.
#pragma once

#include <limits>
#include <span>

#include "analyzer/predict/model.h"
#include "analyzer/predict/requests.h"

namespace memreel {

inline constexpr std::uint32_t no_partner = std::numeric_limits<std::uint32_t>::max();

/// For each request of one recording, its partner in another, or no_partner.
using Partners = std::vector<std::uint32_t>;

/// The factors by which sizes grow from one recording to another if they follow powers of the parameters, each as a
/// fraction: 1, a parameter's ratio, its square, and products of those of several parameters.
struct Ratio {
  std::uint64_t to = 1, from = 1;
  friend bool operator==(const Ratio&, const Ratio&) = default;
};
std::vector<Ratio> growth_ratios(std::span<const std::uint64_t> from, std::span<const std::uint64_t> to);

/// For each request of `b`, the row of its partner in `a`, or no_partner. Partners are in the same order in both, but
/// for those older than the recordings, whose order says nothing: they are partners by their sizes.
/// Aligns step by step if both have as many steps. Time: requests times the length of the stretches between anchors;
/// stretches too long for that (2^25 pairs) are aligned by the n-th request of each site.
std::vector<std::uint32_t> align(const Requests& a, const Requests& b, std::span<const Ratio> ratios);

/// The bytes of requests older than the recordings that have no partner, in the one that has more of them.
Bytes unmatched_older(const Requests& a, const Requests& b, std::span<const Ratio> ratios);

// Finds stretches of requests that a larger program makes more of, such as those of layers or tokens.

/// Stretches of the base that the next smaller recording lacks, if the requests of their sites grow by a rule. `base`:
/// an index into `recordings` above 0. `below`: the base's partners in the recording before it.
std::vector<Repeat> find_repeats(Recordings recordings, std::size_t base, const Partners& below);

/// The repeat whose unit contains a row, or null.
const Repeat* repeat_of(std::span<const Repeat> repeats, std::uint32_t row);

}  // namespace memreel
