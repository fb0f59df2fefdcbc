// Which request of one recording is which of another, made by the same program at another size.
//
// The order in which a program asks for memory hardly depends on the size of its data; what a library asks for inside
// a call may (workspaces of the algorithm it chose), and loops may be longer. So the two sequences are aligned as texts
// are by a diff. Requests correspond only when the same call stack made them; among those, an alignment is the better
// the more sizes are equal or grew by a power of the parameters' ratio, the more lifetimes are alike, and the fewer
// stretches are left out.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "analyzer/predict/requests.h"

namespace memreel {

inline constexpr std::uint32_t no_partner = std::numeric_limits<std::uint32_t>::max();

/// For each request of one recording its partner in another, or no_partner.
using Partners = std::vector<std::uint32_t>;

/// The factors by which sizes grow from one recording to another when they follow the parameters' powers, each as a
/// fraction: 1, a parameter's ratio, its square, and products of those of several parameters.
struct Ratio {
  std::uint64_t to = 1, from = 1;
  friend bool operator==(const Ratio&, const Ratio&) = default;
};
std::vector<Ratio> growth_ratios(std::span<const std::uint64_t> from, std::span<const std::uint64_t> to);

/// For each request of `b` the row of its partner in `a`, or no_partner. Partners are in the same order in both. Steps
/// are aligned one by one when both have as many. Time: requests times the length of what anchors leave between them;
/// stretches too long for that (2^25 pairs) are aligned by the n-th request of each site.
std::vector<std::uint32_t> align(const Requests& a, const Requests& b, std::span<const Ratio> ratios);

}  // namespace memreel
