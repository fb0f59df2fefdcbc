// SPDX-License-Identifier: Apache-2.0
#include "formats/torch/settings.h"

#include <gtest/gtest.h>

namespace memreel {
namespace {

TorchSettings parsed(const std::map<std::string, std::string>& parameters) {
  auto all = TorchSettings{}.parameters();
  for (const auto& [key, value] : parameters) all[key] = value;
  auto settings = TorchSettings::parse(all, "torch.native");
  EXPECT_TRUE(settings) << (settings ? "" : settings.error().message());
  return *settings;
}

TEST(TorchSettings, ReleasesHaveTheirRules) {
  using TieBreak = TorchRelease::TieBreak;
  const auto release = [](const char* text) { return TorchRelease::parse(text).value(); };
  EXPECT_EQ(release("2.1.2").tie_break(), TieBreak::address);
  EXPECT_EQ(release("2.11").tie_break(), TieBreak::address);
  EXPECT_EQ(release("2.12.1+cu130").tie_break(), TieBreak::block_counter);
  EXPECT_EQ(release("2.12.0a0+32f93b1.nv26.02").minor, 12U);
  EXPECT_EQ(release("2.12.0.dev20260101+cu130").minor, 12U);
  EXPECT_EQ(release("2.13").tie_break(), TieBreak::segment_counter);
  EXPECT_EQ(release("2.14 or newer").tie_break(), TieBreak::segment_counter);
  EXPECT_EQ(release("2.3 or 2.4").minor, 4U);
  EXPECT_TRUE(release("2.4").has(torch_rule::segments_for_private_pools));
  EXPECT_FALSE(release("2.5").has(torch_rule::segments_for_private_pools));
  for (const char* none : {"", "2", "2.", "2.0", "1.13", "3.1", "two", "2.12junk", "2.12.", "2.12+", "2.12 ", "2.12.x"})
    EXPECT_FALSE(TorchRelease::parse(none)) << none;
  EXPECT_EQ(TorchSettings::recorded({{"pytorch_release", "2.12"}}).release.tie_break(), TieBreak::block_counter);
}

TEST(TorchSettings, ReleasesWithTheSameRulesAreNamedTogether) {
  std::vector<std::string> rules;
  for (const TorchRelease release : TorchRelease::distinct()) rules.push_back(release.rules());
  EXPECT_EQ(rules, (std::vector<std::string>{"2.13 and newer", "2.12", "2.5 to 2.11", "2.4", "2.1 to 2.3"}));
}

TEST(TorchSettings, AOneInAListLeavesSizesAsTheyAreUpTo23) {
  const auto rounded = [](const char* release, Bytes size) {
    return parsed({{"roundup_power2_divisions", "[64:1,>:4]"}, {"release", release}}).round(size);
  };
  EXPECT_EQ(rounded("2.3", 50'946_B), 50'946_B);
  EXPECT_EQ(rounded("2.3", 100_B), 512_B);
  EXPECT_EQ(rounded("2.4", 50'946_B), 51'200_B);
}

TEST(TorchSettings, TheRestOfAListBeginsWithItsLastSizeUpTo29) {
  const auto rounded = [](const char* release) {
    return parsed({{"roundup_power2_divisions", "[64:16,>:2]"}, {"release", release}}).round(65_MiB);
  };
  EXPECT_EQ(rounded("2.9"), 96_MiB);
  EXPECT_EQ(rounded("2.10"), 68_MiB);
  for (const char* release : {"2.9", "2.10"}) {
    const TorchSettings settings = parsed({{"roundup_power2_divisions", "[64:16,>:2]"}, {"release", release}});
    EXPECT_EQ(TorchSettings::parse(settings.parameters(), "torch.native")->divisions, settings.divisions);
  }
}

// The table from PyTorch's own test of segment sizes.
TEST(TorchSettings, SegmentSizes) {
  const TorchSettings settings;
  EXPECT_EQ(settings.segment_size(512_B), 2_MiB);
  EXPECT_EQ(settings.segment_size(1_MiB), 2_MiB);
  EXPECT_EQ(settings.segment_size(1_MiB + 512_B), 20_MiB);
  EXPECT_EQ(settings.segment_size(10_MiB - 512_B), 20_MiB);
  EXPECT_EQ(settings.segment_size(10_MiB), 10_MiB);
  EXPECT_EQ(settings.segment_size(10_MiB + 512_B), 12_MiB);
}

TEST(TorchSettings, RoundsTo512Bytes) {
  const TorchSettings settings;
  EXPECT_EQ(settings.round(1_B), 512_B);
  EXPECT_EQ(settings.round(512_B), 512_B);
  EXPECT_EQ(settings.round(513_B), 1024_B);
  EXPECT_EQ(settings.round(1_MiB + 1_B), 1_MiB + 512_B);
}

TEST(TorchSettings, RoundsToDivisionsOfPowersOfTwo) {
  const TorchSettings settings = parsed({{"roundup_power2_divisions", "4"}});
  EXPECT_EQ(settings.round(1200_B), 1536_B);      // too small to divide
  EXPECT_EQ(settings.round(4_MiB), 4_MiB);        // powers of two are unchanged
  EXPECT_EQ(settings.round(4_MiB + 1_B), 5_MiB);  // quarter steps
  EXPECT_EQ(settings.round(7_MiB + 1_B), 8_MiB);
}

TEST(TorchSettings, DivisionsPerSize) {
  const TorchSettings settings = parsed({{"roundup_power2_divisions", "[256:1,512:2,1024:4,>:8]"}});
  EXPECT_EQ(settings.divisions, (std::array<std::uint32_t, 16>{1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 4, 8, 8, 8, 8, 8}));
  EXPECT_EQ(settings.round(257_MiB), 257_MiB);
  EXPECT_EQ(settings.round(513_MiB), 768_MiB);
  EXPECT_EQ(settings.round(1025_MiB), 1280_MiB);
  EXPECT_EQ(settings.round(2049_MiB), 2304_MiB);
}

TEST(TorchSettings, HugeRequestsDoNotWrapAround) {
  const TorchSettings settings = parsed({{"roundup_power2_divisions", "2"}});
  const Bytes huge{~std::uint64_t{0} - 5};
  EXPECT_GT(TorchSettings{}.round(huge), 1_GiB);
  EXPECT_GT(settings.round(huge), 1_GiB);
  EXPECT_GT(settings.segment_size(settings.round(huge)), 1_GiB);
}

TEST(TorchSettings, WhatWasRecordedOutOfRangeKeepsItsDefault) {
  for (const char* const key : {"max_split_size", "large_segment_size", "max_non_split_rounding_size",
                                "garbage_collection_threshold", "roundup_power2_divisions", "PYTORCH_CUDA_ALLOC_CONF"})
    for (const char* const value : {"1", "3", "1048577", "1125899906842624", "18446744073709551615", "0.00001", "1.5",
                                    "-1", "nan", "max_split_size_mb:1", "[3:5]"}) {
      const TorchSettings settings = TorchSettings::recorded({{key, value}});
      const auto again = TorchSettings::parse(settings.parameters(), "torch.native");
      ASSERT_TRUE(again) << key << ' ' << value << ": " << again.error().message();
      EXPECT_EQ(again->parameters(), settings.parameters()) << key << ' ' << value;
    }
  EXPECT_EQ(TorchSettings::recorded({{"max_split_size", "1"}}).max_split_size, TorchSettings::unlimited);
  EXPECT_EQ(TorchSettings::recorded({{"max_split_size", "134217728"}}).max_split_size, 128_MiB);
}

TEST(TorchSettings, ASpecOfSettingsGivesTheSameSettings) {
  const TorchSettings settings = parsed({{"max_split_size_mb", "128"},
                                         {"garbage_collection_threshold", "0.6"},
                                         {"roundup_power2_divisions", "[256:1,512:2,1024:4,>:8]"},
                                         {"large_segment_size_mb", "32"}});
  const auto again = TorchSettings::parse(settings.parameters(), "torch.native");
  ASSERT_TRUE(again);
  EXPECT_EQ(again->parameters(), settings.parameters());
  EXPECT_EQ(again->max_split_size, 128_MiB);
  EXPECT_EQ(again->large_segment, 32_MiB);
  EXPECT_EQ(again->garbage_collection_threshold, 0.6);
}

TEST(TorchSettings, ReadsWhatSnapshotsRecord) {
  const TorchSettings settings = TorchSettings::recorded({{"max_split_size", "41943040"},
                                                          {"garbage_collection_threshold", "0.5"},
                                                          {"roundup_power2_divisions", "[1:0,2:4]"}});
  EXPECT_EQ(settings.max_split_size, 40_MiB);
  EXPECT_EQ(settings.garbage_collection_threshold, 0.5);
  EXPECT_EQ(settings.divisions[1], 4U);
  EXPECT_EQ(TorchSettings::recorded({{"max_split_size", "-1"}}).max_split_size, TorchSettings::unlimited);
  EXPECT_TRUE(TorchSettings::recorded({{"expandable_segments", "True"}}).expandable);
}

TEST(TorchSettings, WhatSnapshotsDoNotListIsReadFromTheVariable) {
  const TorchSettings settings = TorchSettings::recorded(
      {{"PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb: 100,large_segment_size_mb: 64,max_non_split_rounding_mb:96"},
       {"max_split_size", "-1"}});
  EXPECT_EQ(settings.large_segment, 64_MiB);
  EXPECT_EQ(settings.max_non_split_rounding, 96_MiB);
  EXPECT_EQ(settings.max_split_size, TorchSettings::unlimited);
  const TorchSettings listed = TorchSettings::recorded({{"large_segment_size", "67108864"}});
  EXPECT_EQ(listed.large_segment, 64_MiB);
  EXPECT_EQ(listed.max_non_split_rounding, 64_MiB);
}

TEST(TorchSettings, OneVariableCounts) {
  const auto expands = [](const char* release, const char* cuda, const char* hip, const char* any) {
    std::map<std::string, std::string> settings{{"pytorch_release", release}};
    if (cuda != nullptr) settings["PYTORCH_CUDA_ALLOC_CONF"] = cuda;
    if (hip != nullptr) settings["PYTORCH_HIP_ALLOC_CONF"] = hip;
    if (any != nullptr) settings["PYTORCH_ALLOC_CONF"] = any;
    return TorchSettings::recorded(settings).expandable;
  };
  const char *yes = "expandable_segments:True", *no = "expandable_segments:False";
  EXPECT_TRUE(expands("2.4", nullptr, yes, nullptr));
  EXPECT_FALSE(expands("2.9", nullptr, nullptr, yes));
  EXPECT_TRUE(expands("2.10", nullptr, nullptr, yes));
  EXPECT_FALSE(expands("2.12", no, yes, yes));
  EXPECT_FALSE(expands("2.12", "", nullptr, yes));  // set, though to nothing
  EXPECT_TRUE(expands("2.12", nullptr, yes, no));
}

}  // namespace
}  // namespace memreel
