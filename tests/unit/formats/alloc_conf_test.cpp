// SPDX-License-Identifier: Apache-2.0
#include "formats/torch/alloc_conf.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>

namespace memreel {
namespace {

TorchSettings parsed(std::string_view conf) {
  const auto given = read_alloc_conf(conf);
  EXPECT_TRUE(given) << (given ? "" : given.error().message());
  return given ? given->device : TorchSettings{};
}

std::string unescaped(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\')
      plain += text[i];
    else
      plain += text[++i] == 't' ? '\t' : text[i] == 'n' ? '\n' : '\\';
  }
  return plain;
}

/// As tests/data/torch/alloc_conf.txt has it.
std::string listed(const AllocConf& conf) {
  const AllocConf defaults;
  std::ostringstream text;
  const auto limit = [&](const char* key, Bytes value) {
    if (value != TorchSettings::unlimited) text << key << '=' << value.count << ' ';
  };
  if (conf.device.expandable) text << "expandable_segments=True ";
  if (conf.device.garbage_collection_threshold > 0)
    text << "garbage_collection_threshold=" << conf.device.garbage_collection_threshold << ' ';
  limit("max_cached_size", conf.host.cached);
  limit("max_round_threshold", conf.host.round_threshold);
  limit("max_split_size", conf.device.max_split_size);
  if (conf.device.divisions != defaults.device.divisions) {
    text << "roundup_power2_divisions=";
    for (const std::uint32_t n : conf.device.divisions) text << n << ',';
    text.seekp(-1, std::ios::cur);
  }
  std::string result = text.str();
  if (result.ends_with(' ') || result.ends_with(',')) result.pop_back();
  return result.empty() ? "accepted" : result;
}

/// Whether a release has all keys of a text, as far as any has.
bool has_keys(std::string_view text, TorchRelease release) {
  return std::ranges::all_of(settings_in(text), [&](const auto& setting) {
    const ConfKey* const key = conf_key(setting.first);
    return key == nullptr || release.has(key->releases);
  });
}

class AllocConfOf : public ::testing::TestWithParam<std::size_t> {};

// 2.9 and 2.15: between 2.9 and 2.10 PyTorch changed how it reads the text.
TEST_P(AllocConfOf, IsReadAsPyTorchReadsIt) {
  const std::size_t column = GetParam();
  const TorchRelease release{column == 1 ? 9U : 15U};
  std::ifstream file(ALLOC_CONF_TEXTS);
  std::size_t compared = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    std::vector<std::string> columns;
    std::istringstream cells(line);
    for (std::string cell; std::getline(cells, cell, '\t');) columns.push_back(cell);
    ASSERT_EQ(columns.size(), 3U) << line;
    const std::string text = unescaped(columns[0]);
    if (!has_keys(text, release)) {
      EXPECT_EQ(columns[column], "refused") << line;
      continue;
    }
    const auto given = read_alloc_conf(text, release);
    // Numbers too large for any block are no limit.
    std::string expected = columns[column];
    for (const char* none :
         {"max_split_size=-1048576", "max_round_threshold=-1048576", "max_split_size=104857599998951424"})
      if (expected == none) expected = "accepted";
    EXPECT_EQ(given ? listed(*given) : "refused", expected) << line << (given ? "" : given.error().message());
    if (!given) {
      EXPECT_LT(given.error().message().size(), 200U) << line;
    }
    ++compared;
  }
  EXPECT_GT(compared, 100U);
}

INSTANTIATE_TEST_SUITE_P(Releases, AllocConfOf, ::testing::Values(std::size_t{1}, std::size_t{2}));

TEST(AllocConf, ARefusalSaysWhatIsWrong) {
  const auto refusal = [](std::string_view text) { return read_alloc_conf(text).error().what; };
  EXPECT_EQ(refusal("expandable_segment:True"),
            "PyTorch has no setting expandable_segment: expandable_segments is meant");
  EXPECT_EQ(refusal("something:1"), "PyTorch has no setting something");
  EXPECT_EQ(refusal("max_split_size_mb:"), "max_split_size_mb has no value");
  EXPECT_EQ(refusal("expandable_segments:true"), "expandable_segments must be True or False, not 'true'");
  EXPECT_EQ(refusal("large_segment_size_mb:10"), "large_segment_size_mb must be a number of MiB above 10, not '10'");
  EXPECT_EQ(refusal("max_split_size_mb:32,large_segment_size_mb:64"),
            "max_split_size_mb must be a number of MiB from 64, not '32'");
}

TEST(AllocConf, TheSettingsOfATextAreFoundWithoutJudgement) {
  using Settings = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(settings_in(" a : 1 ,b:[2:3, >:4],c"), (Settings{{"a", "1"}, {"b", "[2:3,>:4]"}, {"c", ""}}));
  EXPECT_EQ(value_in("backend: native,backend:cudaMallocAsync", "backend"), "cudaMallocAsync");
  EXPECT_EQ(value_in("expandable_segments_reserve:1", "expandable_segments"), "");
}

TEST(AllocConf, TheHostsSettingsAreReadToo) {
  const auto given = read_alloc_conf("pinned_max_round_threshold_mb:64,pinned_reserve_segment_size_mb:8");
  ASSERT_TRUE(given);
  EXPECT_EQ(given->host.round_threshold, 64_MiB);
  EXPECT_EQ(given->host.cached, TorchHostSettings::unlimited);
  EXPECT_EQ(given->host.reserve, 8_MiB);
  EXPECT_EQ(alloc_conf(given->host), "pinned_max_round_threshold_mb:64,pinned_reserve_segment_size_mb:8");
}

TEST(AllocConf, NamesEverySetting) {
  const TorchSettings settings = parsed(
      "expandable_segments:True,max_split_size_mb: 128,max_non_split_rounding_mb:64,"
      "garbage_collection_threshold:0.6,roundup_power2_divisions:[256:1,>:8],large_segment_size_mb:32,"
      "per_process_memory_fraction:0.5,");
  EXPECT_TRUE(settings.expandable);
  EXPECT_EQ(settings.max_split_size, 128_MiB);
  EXPECT_EQ(settings.max_non_split_rounding, 64_MiB);
  EXPECT_EQ(settings.garbage_collection_threshold, 0.6);
  EXPECT_EQ(settings.divisions[8], 1U);
  EXPECT_EQ(settings.divisions[9], 8U);
  EXPECT_EQ(settings.large_segment, 32_MiB);
  EXPECT_EQ(settings.memory_fraction, 0.5);
  EXPECT_EQ(parsed("").parameters(), TorchSettings{}.parameters());
}

TEST(AllocConf, HowFarLargeBlocksAreRoundedFollowsTheSegments) {
  EXPECT_EQ(parsed("").max_non_split_rounding, 20_MiB);
  EXPECT_EQ(parsed("large_segment_size_mb:64").max_non_split_rounding, 64_MiB);
  EXPECT_EQ(parsed("large_segment_size_mb:12").max_non_split_rounding, 12_MiB);
  EXPECT_EQ(parsed("large_segment_size_mb:64,max_non_split_rounding_mb:96").max_non_split_rounding, 96_MiB);
}

TEST(AllocConf, WhatPlacesNothingIsIgnored) {
  EXPECT_EQ(parsed("backend:native,release_lock_on_cudamalloc:True,pinned_use_cuda_host_register:True,"
                   "pinned_num_register_threads:8,graph_capture_record_stream_reuse:True")
                .parameters(),
            TorchSettings{}.parameters());
}

TEST(AllocConf, TablesOfDivisions) {
  using Table = std::array<std::uint32_t, 16>;
  const auto table = [](const std::string& list) { return parsed("roundup_power2_divisions:" + list).divisions; };
  EXPECT_EQ(table("[256:1,512:2,1024:4,>:8]"), (Table{1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 4, 8, 8, 8, 8, 8}));
  EXPECT_EQ(table("[>:4]"), (Table{0, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4}));
  EXPECT_EQ(table("[>:8,64:4]"), (Table{4, 4, 4, 4, 4, 4, 4, 8, 8, 8, 8, 8, 8, 8, 8, 8}));
  EXPECT_EQ(table("[512:2,256:4]"), (Table{2, 2, 2, 2, 2, 2, 2, 2, 4, 2}));
  EXPECT_EQ(table("[256:1, 512:2]"), (Table{1, 1, 1, 1, 1, 1, 1, 1, 1, 2}));
  EXPECT_EQ(table("[65536:2]"), (Table{2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2}));
  EXPECT_EQ(table("[]"), Table{});
}

TEST(AllocConf, WhatIsWrittenIsReadAgain) {
  EXPECT_EQ(alloc_conf(TorchSettings{}), "");
  for (const char* conf :
       {"expandable_segments:True", "max_split_size_mb:128", "roundup_power2_divisions:4",
        "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]", "roundup_power2_divisions:[1:0,>:4]",
        "roundup_power2_divisions:[512:2,1024:4,>:0]", "garbage_collection_threshold:0.8",
        "expandable_segments:True,large_segment_size_mb:64,max_split_size_mb:128,per_process_memory_fraction:0.25",
        "large_segment_size_mb:64,max_non_split_rounding_mb:96",
        "expandable_segments:True,expandable_segments_reserve:0.5,expandable_segments_reserve_by_class:[a:0.25,b:"
        "40G]"}) {
    EXPECT_EQ(alloc_conf(parsed(conf)), conf);
    EXPECT_EQ(parsed(alloc_conf(parsed(conf))).parameters(), parsed(conf).parameters());
  }
}

}  // namespace
}  // namespace memreel
