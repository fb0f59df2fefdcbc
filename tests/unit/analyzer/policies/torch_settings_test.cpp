#include "analyzer/policies/torch_settings.h"

#include <gtest/gtest.h>

#include "analyzer/replay/registry.h"

namespace memreel {
namespace {

TorchSettings parsed(const std::map<std::string, std::string>& parameters) {
  PolicySpec spec = TorchSettings{}.spec();
  for (const auto& [key, value] : parameters) spec.parameters[key] = value;
  auto settings = TorchSettings::parse(spec);
  EXPECT_TRUE(settings) << (settings ? "" : settings.error().message());
  return *settings;
}

TEST(TorchSettings, ReleasesHaveTheirRules) {
  using TieBreak = TorchRelease::TieBreak;
  const auto release = [](const char* text) { return TorchRelease::parse(text).value(); };
  EXPECT_EQ(release("2.1.2").tie_break(), TieBreak::address);
  EXPECT_EQ(release("2.11").tie_break(), TieBreak::address);
  EXPECT_EQ(release("2.12.1+cu130").tie_break(), TieBreak::block_counter);
  EXPECT_EQ(release("2.13").tie_break(), TieBreak::segment_counter);
  EXPECT_EQ(release("2.14 or newer").tie_break(), TieBreak::segment_counter);
  EXPECT_EQ(release("2.3 or 2.4").minor, 4U);
  EXPECT_FALSE(release("2.4").expands_private_pools());
  EXPECT_TRUE(release("2.5").expands_private_pools());
  for (const char* none : {"", "2", "2.", "2.0", "1.13", "3.1", "two"}) EXPECT_FALSE(TorchRelease::parse(none)) << none;
  EXPECT_EQ(TorchSettings::recorded({{"pytorch_release", "2.12"}}).release.tie_break(), TieBreak::block_counter);
}

TEST(TorchSettings, AOneInAListLeavesSizesAsTheyAreUpTo23) {
  const auto rounded = [](const char* release, Bytes size) {
    return parsed({{"roundup_power2_divisions", "[64:1,>:4]"}, {"release", release}}).round(size);
  };
  EXPECT_EQ(rounded("2.3", 50'946_B), 50'946_B);
  EXPECT_EQ(rounded("2.3", 100_B), 512_B);
  EXPECT_EQ(rounded("2.4", 50'946_B), 51'200_B);
}

TEST(TorchSettings, TheRestOfAListBeginsWithItsLastSizeUpTo28) {
  const auto rounded = [](const char* release) {
    return parsed({{"roundup_power2_divisions", "[64:16,>:2]"}, {"release", release}}).round(65_MiB);
  };
  EXPECT_EQ(rounded("2.8"), 96_MiB);
  EXPECT_EQ(rounded("2.9"), 68_MiB);
  for (const char* release : {"2.8", "2.9"}) {
    const TorchSettings settings = parsed({{"roundup_power2_divisions", "[64:16,>:2]"}, {"release", release}});
    EXPECT_EQ(TorchSettings::parse(settings.spec())->divisions, settings.divisions);
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
      const auto again = TorchSettings::parse(settings.spec());
      ASSERT_TRUE(again) << key << ' ' << value << ": " << again.error().message();
      EXPECT_EQ(again->spec(), settings.spec()) << key << ' ' << value;
    }
  EXPECT_EQ(TorchSettings::recorded({{"max_split_size", "1"}}).max_split_size, TorchSettings::unlimited);
  EXPECT_EQ(TorchSettings::recorded({{"max_split_size", "134217728"}}).max_split_size, 128_MiB);
}

TEST(TorchSettings, ASpecOfSettingsGivesTheSameSettings) {
  const TorchSettings settings = parsed({{"max_split_size_mb", "128"},
                                         {"garbage_collection_threshold", "0.6"},
                                         {"roundup_power2_divisions", "[256:1,512:2,1024:4,>:8]"},
                                         {"large_segment_size_mb", "32"}});
  const auto again = TorchSettings::parse(settings.spec());
  ASSERT_TRUE(again);
  EXPECT_EQ(again->spec(), settings.spec());
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
      {{"PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:100,large_segment_size_mb:64,max_non_split_rounding_mb:32"},
       {"max_split_size", "-1"}});
  EXPECT_EQ(settings.large_segment, 64_MiB);
  EXPECT_EQ(settings.max_non_split_rounding, 32_MiB);
  EXPECT_EQ(settings.max_split_size, TorchSettings::unlimited);
}

class BadTorchParameter : public ::testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(BadTorchParameter, IsRefusedByName) {
  const auto [key, value] = GetParam();
  const auto policy = bind_policy({.name = "torch.native", .parameters = {{key, value}}});
  ASSERT_FALSE(policy);
  EXPECT_NE(policy.error().message().find(key), std::string::npos) << policy.error().message();
}

INSTANTIATE_TEST_SUITE_P(
    Values, BadTorchParameter,
    ::testing::Values(std::pair{"max_split_size_mb", "19"}, std::pair{"max_split_size_mb", "-1"},
                      std::pair{"max_split_size_mb", "64MiB"}, std::pair{"max_split_size_mb", ""},
                      std::pair{"garbage_collection_threshold", "1"}, std::pair{"garbage_collection_threshold", "0.5x"},
                      std::pair{"garbage_collection_threshold", "nan"}, std::pair{"roundup_power2_divisions", "3"},
                      std::pair{"roundup_power2_divisions", "[64:3]"}, std::pair{"roundup_power2_divisions", "[300:4]"},
                      std::pair{"roundup_power2_divisions", "[256:4"}, std::pair{"large_segment_size_mb", "5"},
                      std::pair{"no_such_setting", "1"}));

}  // namespace
}  // namespace memreel
