// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/engine/parameters.h"

#include <gtest/gtest.h>

namespace memreel {
namespace {

TEST(PolicySpec, ParsesNamesAndParameters) {
  const auto specs =
      parse_policies("bound.live, torch.native{max_split_size_mb=128, garbage_collection_threshold=0.6}");
  ASSERT_TRUE(specs);
  ASSERT_EQ(specs->size(), 2U);
  EXPECT_EQ((*specs)[0], (PolicySpec{.name = "bound.live"}));
  EXPECT_EQ((*specs)[1].parameters.at("max_split_size_mb"), "128");
  EXPECT_EQ((*specs)[1].text(), "torch.native{garbage_collection_threshold=0.6,max_split_size_mb=128}");
}

TEST(PolicySpec, CommasInBracketsBelongToTheValue) {
  const auto specs = parse_policies("torch.native{roundup_power2_divisions=[256:1,>:8]},fit.best");
  ASSERT_TRUE(specs);
  ASSERT_EQ(specs->size(), 2U);
  EXPECT_EQ((*specs)[0].parameters.at("roundup_power2_divisions"), "[256:1,>:8]");
}

TEST(PolicySpec, PyTorchsSpellingIsAsGood) {
  const auto specs = parse_policies("torch{expandable_segments:True,roundup_power2_divisions:[256:1,>:8]}");
  ASSERT_TRUE(specs);
  EXPECT_EQ(specs->at(0).parameters.at("expandable_segments"), "True");
  EXPECT_EQ(specs->at(0).parameters.at("roundup_power2_divisions"), "[256:1,>:8]");
}

TEST(PolicySpec, WhatTextWritesIsParsedBack) {
  const PolicySpec spec{.name = "torch.native", .parameters = {{"a", "[1:2,3:4]"}, {"b", "unlimited"}}};
  const auto again = parse_policies(spec.text());
  ASSERT_TRUE(again);
  EXPECT_EQ(again->at(0), spec);
}

class MalformedSpec : public ::testing::TestWithParam<const char*> {};

TEST_P(MalformedSpec, IsOneLineThatShowsHow) {
  const auto specs = parse_policies(GetParam());
  ASSERT_FALSE(specs);
  EXPECT_NE(specs.error().message().find("torch.native{"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Texts, MalformedSpec,
                         ::testing::Values("", ",", "a,", ",a", "a{", "a}", "a{b}", "a{=1}", "a{b=1,b=2}", "{b=1}",
                                           "a{b=1}c", "a=b"));

}  // namespace
}  // namespace memreel
