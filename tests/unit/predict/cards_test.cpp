// SPDX-License-Identifier: Apache-2.0
#include "analyzer/predict/cards.h"

#include <gtest/gtest.h>

namespace memreel {
namespace {

TEST(Cards, AreFoundAsPeopleWriteThem) {
  ASSERT_NE(find_card("H100-80GB"), nullptr);
  for (const std::string_view name : {"h100-80gb", "NVIDIA H100-80GB", "NVIDIA-H100-80GB"})
    EXPECT_EQ(find_card(name), find_card("H100-80GB")) << name;
  for (const std::string_view name : {"RTX 4090", "GeForce RTX 4090", "NVIDIA GeForce RTX 4090", "rtx4090"})
    EXPECT_EQ(find_card(name), find_card("4090")) << name;
  EXPECT_EQ(find_card("80GiB"), nullptr);
  EXPECT_EQ(find_card(""), nullptr);
}

TEST(Cards, HaveLessThanTheirNameSays) {
  EXPECT_LT(find_card("H100-80GB")->memory, 80_GiB);
  EXPECT_GT(find_card("H100-80GB")->memory, 78_GiB);
  for (const Card& card : cards()) EXPECT_GT(card.memory, assumed_context) << card.name;
}

}  // namespace
}  // namespace memreel
