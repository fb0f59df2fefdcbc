// SPDX-License-Identifier: Apache-2.0
#include "analyzer/predict/growth.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace memreel {
namespace {

__extension__ using Wide = __int128;
using Powers = std::vector<std::uint8_t>;

constexpr std::uint8_t most_power = 2;
constexpr std::uint8_t most_single_power = 4;  // of a single term confirmed by more than two sizes
constexpr std::size_t most_terms = 3;
constexpr std::array<std::uint64_t, 8> multiples{2, 4, 8, 16, 32, 64, 128, 256};

/// Returns false on overflow.
bool multiply(Wide a, Wide b, Wide& result) { return !__builtin_mul_overflow(a, b, &result); }

/// On overflow, a number that no size comes near, and small enough that a function's terms can be summed.
Wide saturated_product(Wide a, Wide b) {
  constexpr Wide most = Wide{1} << 123U;
  Wide product = 0;
  if (!multiply(a, b, product)) product = (a < 0) == (b < 0) ? most : -most;
  return std::clamp(product, -most, most);
}

Wide term_at(std::span<const std::uint8_t> powers, std::span<const std::uint64_t> values, std::uint64_t multiple) {
  Wide product = 1;
  for (std::size_t p = 0; p < powers.size(); ++p) {
    const Wide value = (values[p] + multiple - 1) / multiple * multiple;
    for (int k = 0; k < powers[p]; ++k) product = saturated_product(product, value);
  }
  return product;
}

/// The determinant of a matrix of at most 3 x 3, or none on overflow.
std::optional<Wide> determinant(const std::vector<std::vector<Wide>>& m) {
  if (m.size() == 1) return m[0][0];
  Wide sum = 0;
  for (std::size_t column = 0; column < m.size(); ++column) {
    std::vector<std::vector<Wide>> minor;
    for (std::size_t row = 1; row < m.size(); ++row) {
      minor.emplace_back();
      for (std::size_t c = 0; c < m.size(); ++c)
        if (c != column) minor.back().push_back(m[row][c]);
    }
    const std::optional<Wide> inner = determinant(minor);
    Wide part = 0;
    if (!inner || !multiply(m[0][column], *inner, part)) return std::nullopt;
    if (__builtin_add_overflow(sum, column % 2 == 0 ? part : -part, &sum)) return std::nullopt;
  }
  return sum;
}

Wide gcd_of(Wide a, Wide b) {
  if (a < 0) a = -a;
  if (b < 0) b = -b;
  while (b != 0) std::swap(a %= b, b);
  return a;
}

/// Every product of powers of the parameters, lower degrees first; within a degree, those of the first parameters
/// first.
std::vector<Powers> all_powers(std::size_t parameters) {
  std::vector<Powers> all{Powers(parameters, 0)};
  for (std::size_t p = 0; p < parameters; ++p)
    for (std::size_t i = 0, before = all.size(); i < before; ++i)
      for (std::uint8_t power = 1; power <= most_power; ++power) {
        all.push_back(all[i]);
        all.back()[p] = power;
      }
  std::ranges::stable_sort(all, {},
                           [](const Powers& powers) { return std::accumulate(powers.begin(), powers.end(), 0); });
  return all;
}

bool is_one(const Powers& powers) {
  return std::ranges::all_of(powers, [](std::uint8_t power) { return power == 0; });
}

std::string digits(Wide value) {
  if (value < 0) return "-" + digits(-value);
  if (value < 10) return std::string(1, static_cast<char>('0' + static_cast<int>(value)));
  return digits(value / 10) + static_cast<char>('0' + static_cast<int>(value % 10));
}

/// Calls `use` with every choice of `count` of `from`, in order, until it returns true.
template <class Use>
bool any_choice(std::span<const Powers> from, std::size_t count, std::vector<Powers>& chosen, Use use) {
  if (count == 0) return use(chosen);
  for (std::size_t i = 0; i + count <= from.size(); ++i) {
    chosen.push_back(from[i]);
    const bool done = any_choice(from.subspan(i + 1), count - 1, chosen, use);
    chosen.pop_back();
    if (done) return true;
  }
  return false;
}

}  // namespace

SizeGrowth SizeGrowth::constant(Bytes size, std::size_t parameters) {
  SizeGrowth growth;
  growth.powers_.push_back(Powers(parameters, 0));
  growth.numerators_.push_back(size.count);
  return growth;
}

SizeGrowth::Wide SizeGrowth::numerator_at(std::span<const std::uint64_t> values) const {
  Wide sum = 0;
  for (std::size_t t = 0; t < powers_.size(); ++t)
    sum += saturated_product(numerators_[t], term_at(powers_[t], values, multiple_));
  return sum;
}

Bytes SizeGrowth::at(std::span<const std::uint64_t> values) const {
  const Wide numerator = numerator_at(values);
  if (numerator <= 0) return {};
  return {static_cast<std::uint64_t>((numerator + denominator_ - 1) / denominator_)};
}

bool SizeGrowth::falls() const {
  if (std::ranges::none_of(numerators_, [](Wide n) { return n < 0; })) return false;
  // "n - 1" is a shape: all but the first of a sequence.
  const bool line = powers_.size() == 2 && degree() == 1 && is_one(powers_.front());
  return !line || numerators_[1] < 0 || -numerators_[0] > 2 * numerators_[1];
}

bool SizeGrowth::is_constant() const { return degree() == 0; }

unsigned SizeGrowth::degree() const {
  unsigned degree = 0;
  for (const Powers& powers : powers_)
    for (const std::uint8_t power : powers) degree = std::max<unsigned>(degree, power);
  return degree;
}

std::string SizeGrowth::text(std::span<const std::string> names) const {
  std::string text;
  for (std::size_t t = 0; t < powers_.size(); ++t) {
    const Wide common = gcd_of(numerators_[t], denominator_);
    const Wide numerator = numerators_[t] / common, denominator = denominator_ / common;
    if (!text.empty()) text += numerator < 0 ? " - " : " + ";
    text += digits(text.empty() || numerator >= 0 ? numerator : -numerator);
    if (denominator != 1) text += "/" + digits(denominator);
    for (std::size_t p = 0; p < names.size(); ++p) {
      if (powers_[t][p] == 0) continue;
      text += " " + names[p];
      if (multiple_ > 1) text += "(to " + std::to_string(multiple_) + ")";
      if (powers_[t][p] > 1) text += "^" + std::to_string(powers_[t][p]);
    }
  }
  return text;
}

SizeGrowth SizeGrowth::shape() const {
  SizeGrowth shape = *this;
  Wide common = 0;
  Powers least = powers_.front();
  for (std::size_t t = 0; t < powers_.size(); ++t) {
    common = gcd_of(common, numerators_[t]);
    for (std::size_t p = 0; p < least.size(); ++p) least[p] = std::min(least[p], powers_[t][p]);
  }
  for (std::size_t t = 0; t < powers_.size(); ++t) {
    shape.numerators_[t] /= common;
    for (std::size_t p = 0; p < least.size(); ++p) shape.powers_[t][p] -= least[p];
  }
  shape.denominator_ = 1;
  return shape;
}

SizeGrowth SizeGrowth::times(const SizeGrowth& other) const {
  SizeGrowth product;
  product.multiple_ = multiple_;
  for (std::size_t a = 0; a < powers_.size(); ++a)
    for (std::size_t b = 0; b < other.powers_.size(); ++b) {
      Powers powers = powers_[a];
      for (std::size_t p = 0; p < powers.size(); ++p) powers[p] += other.powers_[b][p];
      const Wide numerator = numerators_[a] * other.numerators_[b];
      const auto same = std::ranges::find(product.powers_, powers);
      if (same != product.powers_.end()) {
        product.numerators_[static_cast<std::size_t>(same - product.powers_.begin())] += numerator;
        continue;
      }
      product.powers_.push_back(std::move(powers));
      product.numerators_.push_back(numerator);
    }
  return product;
}

std::optional<SizeGrowth> SizeGrowth::scaled_through(std::span<const SizePoint> points) const {
  const Wide value = numerator_at(points.front().at), size = points.front().size.count;
  if (value <= 0) return std::nullopt;
  for (const SizePoint& point : points) {
    Wide here = 0, there = 0;
    if (!multiply(numerator_at(point.at), size, here) || !multiply(value, point.size.count, there) || here != there)
      return std::nullopt;
  }
  SizeGrowth scaled = *this;
  const Wide common = gcd_of(size, value);
  for (Wide& numerator : scaled.numerators_)
    if (!multiply(numerator, size / common, numerator)) return std::nullopt;
  scaled.denominator_ = value / common;
  scaled.confirmed_ = points.size() > 1;
  return scaled;
}

std::optional<SizeGrowth> SizeGrowth::product_through(std::span<const SizePoint> points,
                                                      std::span<const SizeGrowth> shapes) {
  if (points.size() < 2) return std::nullopt;
  std::vector<SizeGrowth> alone;  // constants, each parameter alone, and products of several
  for (const Powers& powers : all_powers(points.front().at.size())) {
    if (std::ranges::any_of(powers, [](std::uint8_t power) { return power > 1; })) continue;
    alone.push_back(constant({1}, powers.size()));
    alone.back().powers_.front() = powers;
  }
  for (std::size_t a = 0; a < shapes.size(); ++a)
    for (std::size_t b = a; b < shapes.size(); ++b) {
      if (shapes[a].multiple_ != shapes[b].multiple_) continue;
      const SizeGrowth product = shapes[a].times(shapes[b]);
      for (const SizeGrowth& parameters : alone)
        if (std::optional<SizeGrowth> found = product.times(parameters).scaled_through(points)) return found;
    }
  return std::nullopt;
}

std::optional<SizeGrowth> SizeGrowth::solve(std::span<const SizePoint> points, std::span<const Powers> powers,
                                            std::uint64_t multiple, Bytes tolerance) {
  // Cramer's rule over the first points, as many as there are terms; the rest must agree.
  const std::size_t n = powers.size();
  std::vector<std::vector<Wide>> system;
  std::vector<Wide> sizes;
  for (const SizePoint& point : points.first(n)) {
    system.emplace_back();
    for (const Powers& term : powers) system.back().push_back(term_at(term, point.at, multiple));
    sizes.push_back(point.size.count);
  }
  const std::optional<Wide> whole = determinant(system);
  if (!whole || *whole == 0) return std::nullopt;
  SizeGrowth growth;
  growth.powers_.assign(powers.begin(), powers.end());
  growth.multiple_ = multiple;
  growth.denominator_ = *whole;
  for (std::size_t t = 0; t < n; ++t) {
    std::vector<std::vector<Wide>> replaced = system;
    for (std::size_t row = 0; row < n; ++row) replaced[row][t] = sizes[row];
    const std::optional<Wide> part = determinant(replaced);
    if (!part || *part == 0) return std::nullopt;  // 0: a simpler function would do
    growth.numerators_.push_back(*part);
  }
  Wide common = growth.denominator_;
  for (const Wide numerator : growth.numerators_) common = gcd_of(common, numerator);
  if (growth.denominator_ < 0) common = -common;
  growth.denominator_ /= common;
  for (Wide& numerator : growth.numerators_) numerator /= common;
  const Wide most = saturated_product(growth.denominator_, static_cast<Wide>(tolerance.count));
  for (const SizePoint& point : points.subspan(n)) {
    Wide wanted = 0, missed = 0;
    if (!multiply(growth.denominator_, static_cast<Wide>(point.size.count), wanted) ||
        __builtin_sub_overflow(growth.numerator_at(point.at), wanted, &missed) || missed > most || missed < -most)
      return std::nullopt;
  }
  growth.confirmed_ = points.size() > n;
  return growth;
}

std::optional<SizeGrowth> SizeGrowth::through(std::span<const SizePoint> given, bool curves, Bytes tolerance) {
  const std::size_t parameters = given.front().at.size();
  if (given.size() == 1) return std::nullopt;
  std::vector<SizePoint> points(given.begin(), given.end());
  std::swap(points.front(), points.back());
  if (points.size() > 2) std::swap(points[1], points.back());  // the two furthest apart define it
  if (std::ranges::all_of(points, [&](const SizePoint& point) { return point.size == points.front().size; })) {
    SizeGrowth growth = constant(points.front().size, parameters);
    growth.confirmed_ = true;
    return growth;
  }
  const std::vector<Powers> all = all_powers(parameters);
  std::optional<SizeGrowth> found;
  std::vector<Powers> chosen;
  // The weights of a layer over the tokens of an image grow with the fourth power of its side.
  const auto look_higher = [&] {
    for (std::size_t p = 0; p < parameters && points.size() > 2 && !found; ++p)
      for (std::uint8_t power = most_power + 1; power <= most_single_power && !found; ++power) {
        std::vector<Powers> single{Powers(parameters, 0)};
        single.front()[p] = power;
        found = solve(points, single, 1, tolerance);
      }
    return found.has_value();
  };
  const auto look = [&](std::size_t terms, std::uint64_t multiple) {
    return any_choice(all, terms, chosen, [&](std::span<const Powers> powers) {
      std::optional<SizeGrowth> growth = solve(points, powers, multiple, tolerance);
      if (!growth) return false;
      // Rounding can merge two of the points, and nothing confirms a fall through those.
      if (growth->falls() && (!growth->confirmed_ || multiple > 1)) return false;
      if (multiple > 1 && !growth->confirmed_) return false;
      if (terms == most_terms && !growth->confirmed_ && !curves) return false;
      found = std::move(growth);
      return true;
    });
  };
  for (std::size_t terms = 1; terms <= std::min(most_terms, points.size()); ++terms) {
    if (look(terms, 1)) return found;
    if (terms == 1 && look_higher()) return found;
    if (terms < points.size())
      for (const std::uint64_t multiple : multiples)
        if (look(terms, multiple)) return found;
  }
  return std::nullopt;
}

}  // namespace memreel
