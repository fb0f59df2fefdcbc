// SPDX-License-Identifier: Apache-2.0
// How the size of a request depends on the program's parameters.
//
// Sizes are products of shapes, so integer arithmetic searches for an exact polynomial of few terms; never a
// least-squares fit, which always finds something. The simplest one through every recorded size is taken: first one
// power of the parameters (a constant, b x, c x^2, b x y ...), then two terms, then three. If none fits and there are
// enough recordings, the parameters are rounded up to a multiple, as kernels pad shapes. What a program's other
// requests reveal about its shapes allows functions of more terms from equally few recordings: product_through().
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "formats/model/units.h"

namespace memreel {

/// The parameter values of one recording or prediction, ordered by parameter name. All positive.
using Values = std::vector<std::uint64_t>;

/// A recorded size and where it was recorded.
struct SizePoint {
  std::span<const std::uint64_t> at;
  Bytes size;
};

/// An exact function of the parameters.
class SizeGrowth {
 public:
  static SizeGrowth constant(Bytes size, std::size_t parameters);

  /// Bytes at `values`, rounded up; never negative.
  Bytes at(std::span<const std::uint64_t> values) const;

  bool is_constant() const;
  /// Whether more sizes were recorded than the function has terms, so that it is more than an interpolation.
  bool confirmed() const { return confirmed_; }
  std::size_t terms() const { return powers_.size(); }
  /// The highest power of any parameter.
  unsigned degree() const;
  /// "1536 + 4096 batch", with `names` of the parameters.
  std::string text(std::span<const std::string> names) const;

  /// The function through `points`, which are at distinct values and at least one; none if no plausible one exists.
  /// Accepts a negative term only if the function is confirmed. `curves`: whether three terms of one parameter may be
  /// drawn through three points, which nothing confirms. `tolerance`: the most by which it may miss the points that
  /// don't define it.
  static std::optional<SizeGrowth> through(std::span<const SizePoint> points, bool curves, Bytes tolerance = {});

  /// The shape implied by a function of several terms: the function without its terms' common factor. For "4096 batch +
  /// 64 batch seq" that is "64 + seq".
  SizeGrowth shape() const;
  /// The multiple of a product of two of `shapes`, and of the parameters themselves, that passes through all `points`
  /// (more than one): attention over n + 1 tokens takes a multiple of their square.
  static std::optional<SizeGrowth> product_through(std::span<const SizePoint> points,
                                                   std::span<const SizeGrowth> shapes);

  friend bool operator==(const SizeGrowth&, const SizeGrowth&) = default;

 private:
  __extension__ using Wide = __int128;

  static std::optional<SizeGrowth> solve(std::span<const SizePoint> points,
                                         std::span<const std::vector<std::uint8_t>> powers, std::uint64_t multiple,
                                         Bytes tolerance);
  /// Whether a negative term can't come from a shape.
  bool falls() const;
  SizeGrowth times(const SizeGrowth& other) const;
  /// This function, times a number, through all of `points`.
  std::optional<SizeGrowth> scaled_through(std::span<const SizePoint> points) const;
  Wide numerator_at(std::span<const std::uint64_t> values) const;

  std::vector<std::vector<std::uint8_t>> powers_;  // of each term
  std::vector<Wide> numerators_;
  Wide denominator_ = 1;
  std::uint64_t multiple_ = 1;  // parameters are rounded up to it
  bool confirmed_ = false;
};

}  // namespace memreel
