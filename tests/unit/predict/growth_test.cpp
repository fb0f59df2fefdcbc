// SPDX-License-Identifier: Apache-2.0
#include "analyzer/predict/growth.h"

#include <gtest/gtest.h>

#include <functional>

namespace memreel {
namespace {

using Function = std::function<std::uint64_t(std::uint64_t)>;

std::optional<SizeGrowth> learned(const std::vector<std::uint64_t>& at, const Function& size, bool curves = false) {
  std::vector<Values> values;
  for (const std::uint64_t x : at) values.push_back({x});
  std::vector<SizePoint> points;
  for (const Values& value : values) points.push_back({value, Bytes{size(value[0])}});
  return SizeGrowth::through(points, curves);
}

void expect_same(const Function& size, const std::vector<std::uint64_t>& at, std::uint64_t target,
                 bool curves = false) {
  const std::optional<SizeGrowth> growth = learned(at, size, curves);
  ASSERT_TRUE(growth);
  EXPECT_EQ(growth->at(Values{target}), Bytes{size(target)});
}

TEST(SizeGrowth, FindsTheSimplestFunction) {
  const std::string names[] = {"n"};
  EXPECT_EQ(learned({1, 2, 4}, [](auto) { return 4096; })->text(names), "4096");
  EXPECT_EQ(learned({1, 2, 4}, [](auto x) { return 4096 * x; })->text(names), "4096 n");
  EXPECT_EQ(learned({3, 5}, [](auto x) { return 7 * x * x; })->text(names), "7 n^2");
  EXPECT_EQ(learned({1, 2, 4}, [](auto x) { return 24 + 8 * x; })->text(names), "24 + 8 n");
  EXPECT_EQ(learned({4, 8, 12}, [](auto x) { return x * 3 / 2; })->text(names), "3/2 n");
}

TEST(SizeGrowth, IsExactFarAway) {
  expect_same([](auto x) { return 3 * x * x + 12 * x; }, {128, 256, 384}, 65536);
  expect_same([](auto x) { return 1000 + 12 * x * x; }, {128, 256, 384}, 65536);
  expect_same([](auto x) { return 5 + 7 * x + 11 * x * x; }, {2, 4, 7}, 1024, true);
  expect_same([](auto x) { return 49'152'000 + 154'389'504 * x; }, {1, 2, 3}, 4096);
}

TEST(SizeGrowth, DrawsNoCurveThroughWhatNothingConfirms) {
  const Function jump = [](auto x) { return x < 4 ? 1'000'000 * x : 9'000'123; };
  EXPECT_FALSE(learned({1, 2, 4}, jump));
  EXPECT_FALSE(learned(
      {1, 2, 4}, [](auto x) { return x < 4 ? 8'000'000 : 512; }, true));
}

TEST(SizeGrowth, SaysWhetherItIsConfirmed) {
  EXPECT_TRUE(learned({1, 2}, [](auto x) { return 512 * x; })->confirmed());
  EXPECT_FALSE(learned({1, 2}, [](auto x) { return 100 + 512 * x; })->confirmed());
  EXPECT_TRUE(learned({1, 2, 3}, [](auto x) { return 100 + 512 * x; })->confirmed());
}

TEST(SizeGrowth, KnowsPaddedShapes) {
  const Function padded = [](std::uint64_t x) { return (x + 31) / 32 * 32 * 768; };
  expect_same(padded, {40, 100, 200}, 1000);
  expect_same(padded, {40, 100, 200}, 1001);
}

TEST(SizeGrowth, OfSeveralParametersIsAProduct) {
  const auto size = [](std::uint64_t batch, std::uint64_t seq) { return batch * 16 * seq * seq * 2; };
  const std::vector<Values> at{{1, 128}, {2, 128}, {1, 256}, {4, 512}};
  std::vector<SizePoint> points;
  for (const Values& values : at) points.push_back({values, Bytes{size(values[0], values[1])}});
  const std::optional<SizeGrowth> growth = SizeGrowth::through(points, false);
  ASSERT_TRUE(growth);
  EXPECT_EQ(growth->at(Values{32, 4096}), Bytes{size(32, 4096)});
}

TEST(SizeGrowth, MultipliesShapesThatAreKnown) {
  // A square image of n pixels has (n / 16)^2 patches, and attention sees one more token.
  const auto tokens = [](std::uint64_t side) { return side / 16 * (side / 16) + 1; };
  const std::optional<SizeGrowth> hidden = learned({64, 96, 128}, [&](auto x) { return 192 * 4 * tokens(x); });
  ASSERT_TRUE(hidden && hidden->confirmed());
  const std::vector<Values> at{{64}, {96}, {128}};
  std::vector<SizePoint> points;
  for (const Values& x : at) points.push_back({x, Bytes{12 * tokens(x[0]) * tokens(x[0])}});
  const std::vector<SizeGrowth> shapes{hidden->shape()};
  const std::optional<SizeGrowth> attention = SizeGrowth::product_through(points, shapes);
  ASSERT_TRUE(attention);
  EXPECT_TRUE(attention->confirmed());
  EXPECT_EQ(attention->at(Values{1024}), Bytes{12 * tokens(1024) * tokens(1024)});
  points.back().size += 1_B;
  EXPECT_FALSE(SizeGrowth::product_through(points, shapes));
}

TEST(SizeGrowth, MultipliesShapesOfSeveralParameters) {
  const auto size = [](std::uint64_t batch, std::uint64_t n) { return batch * 8 * (n + 1) * (n + 1); };
  const std::vector<Values> at{{1, 64}, {2, 64}, {2, 128}, {4, 192}};
  std::vector<SizePoint> points, squares;
  for (const Values& v : at) {
    points.push_back({v, Bytes{v[0] * 768 * (v[1] + 1)}});
    squares.push_back({v, Bytes{size(v[0], v[1])}});
  }
  const std::optional<SizeGrowth> hidden = SizeGrowth::through(points, false);
  ASSERT_TRUE(hidden && hidden->confirmed());
  const std::vector<SizeGrowth> shapes{hidden->shape()};
  const std::optional<SizeGrowth> attention = SizeGrowth::product_through(squares, shapes);
  ASSERT_TRUE(attention);
  EXPECT_EQ(attention->at(Values{64, 4096}), Bytes{size(64, 4096)});
}

TEST(SizeGrowth, FindsTheFourthPowerOfASide) {
  const auto weights = [](std::uint64_t side) { return (side / 16) * (side / 16) * (side / 16) * (side / 16) * 8; };
  const std::optional<SizeGrowth> growth = learned({64, 96, 128}, weights);
  ASSERT_TRUE(growth && growth->confirmed());
  EXPECT_EQ(growth->at(Values{320}), Bytes{weights(320)});
  EXPECT_FALSE(learned({64, 96}, weights) && learned({64, 96}, weights)->degree() > 2);
}

TEST(SizeGrowth, MissesByNoMoreThanItsTolerance) {
  const Function padded = [](std::uint64_t x) { return x * 2'973'696 + (x == 4 ? 147 : 16); };
  EXPECT_FALSE(learned({4, 8, 12}, padded));
  std::vector<Values> at{{4}, {8}, {12}};
  std::vector<SizePoint> points;
  for (const Values& x : at) points.push_back({x, Bytes{padded(x[0])}});
  const std::optional<SizeGrowth> growth = SizeGrowth::through(points, false, 512_B);
  ASSERT_TRUE(growth);
  EXPECT_NEAR(static_cast<double>(growth->at(Values{64}).count), static_cast<double>(padded(64)), 2000);
}

TEST(SizeGrowth, NeverOverflows) {
  const auto huge = [](std::uint64_t x) { return (std::uint64_t{1} << 60U) + x; };
  const auto growth = learned({(1ULL << 31U) + 1, 1ULL << 32U, 3}, huge);
  EXPECT_TRUE(!growth || growth->at(Values{5}) > 0_B);
}

}  // namespace
}  // namespace memreel
