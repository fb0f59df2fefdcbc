// The values are those that PyTorch 2.11 accepted, and the tables are from its snapshots.
#include "analyzer/policies/torch_conf.h"

#include <gtest/gtest.h>

#include "analyzer/replay/registry.h"

namespace memreel {
namespace {

TorchSettings parsed(std::string_view conf) {
  const auto settings = parse_alloc_conf(conf);
  EXPECT_TRUE(settings) << (settings ? "" : settings.error().message());
  return settings ? *settings : TorchSettings{};
}

TEST(TorchConf, NamesEverySetting) {
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
  EXPECT_EQ(parsed("").spec(), TorchSettings{}.spec());
}

TEST(TorchConf, HowFarLargeBlocksAreRoundedFollowsTheSegments) {
  EXPECT_EQ(parsed("").max_non_split_rounding, 20_MiB);
  EXPECT_EQ(parsed("large_segment_size_mb:64").max_non_split_rounding, 64_MiB);
  EXPECT_EQ(parsed("large_segment_size_mb:12").max_non_split_rounding, 12_MiB);
  EXPECT_EQ(parsed("large_segment_size_mb:64,max_non_split_rounding_mb:32").max_non_split_rounding, 32_MiB);
}

TEST(TorchConf, WhatPlacesNothingIsIgnored) {
  EXPECT_EQ(parsed("backend:native,release_lock_on_cudamalloc:True,pinned_use_cuda_host_register:True,"
                   "pinned_num_register_threads:8,graph_capture_record_stream_reuse:True")
                .spec(),
            TorchSettings{}.spec());
}

TEST(TorchConf, TablesOfDivisions) {
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

TEST(TorchConf, WhatIsWrittenIsReadAgain) {
  EXPECT_EQ(alloc_conf(TorchSettings{}), "");
  for (const char* conf :
       {"expandable_segments:True", "max_split_size_mb:128", "roundup_power2_divisions:4",
        "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]", "roundup_power2_divisions:[1:0,>:4]",
        "roundup_power2_divisions:[512:2,1024:4,>:0]", "garbage_collection_threshold:0.8",
        "expandable_segments:True,large_segment_size_mb:64,max_split_size_mb:128,per_process_memory_fraction:0.25",
        "large_segment_size_mb:64,max_non_split_rounding_mb:20",
        "expandable_segments:True,expandable_segments_reserve:0.5,expandable_segments_reserve_by_class:[a:0.25,b:"
        "40G]"}) {
    EXPECT_EQ(alloc_conf(parsed(conf)), conf);
    EXPECT_EQ(parsed(alloc_conf(parsed(conf))).spec(), parsed(conf).spec());
  }
}

TEST(TorchConf, ThePolicyTorchIsTorchNative) {
  const auto specs = parse_policies("torch{expandable_segments:True,roundup_power2_divisions:[256:1,>:8]},torch");
  ASSERT_TRUE(specs);
  const auto policy = bind_policy(specs->at(0));
  ASSERT_TRUE(policy) << policy.error().message();
  EXPECT_EQ(policy->spec.name, "torch.native");
  EXPECT_EQ(policy->spec.parameters.at("expandable_segments"), "True");
  EXPECT_EQ(policy->spec.parameters.at("roundup_power2_divisions"), "[256:1,>:8]");
  EXPECT_EQ(bind_policy(specs->at(1))->spec, TorchSettings{}.spec());
  EXPECT_EQ(bind_policy(policy->spec)->spec, policy->spec);
}

TEST(TorchConf, TorchExpandableIsTorchNativeWithExpandableSegments) {
  const auto policy = bind_policy({.name = "torch.expandable", .parameters = {{"max_split_size_mb", "64"}}});
  ASSERT_TRUE(policy);
  EXPECT_EQ(policy->spec.name, "torch.expandable");
  EXPECT_EQ(policy->spec.parameters, (TorchSettings{.max_split_size = 64_MiB, .expandable = true}.spec().parameters));
}

TEST(TorchConf, AnotherBackendIsAnotherPolicy) {
  const auto policy = bind_policy({.name = "torch", .parameters = {{"backend", "cudaMallocAsync"}}});
  ASSERT_FALSE(policy);
  EXPECT_NE(policy.error().message().find("cuda.async"), std::string::npos);
}

TEST(TorchConf, UnknownKeysNameTheKnownOnes) {
  const auto settings = parse_alloc_conf("max_split:64");
  ASSERT_FALSE(settings);
  EXPECT_NE(settings.error().message().find("'max_split'"), std::string::npos);
  EXPECT_NE(settings.error().message().find("max_split_size_mb"), std::string::npos);
}

class BadConf : public ::testing::TestWithParam<const char*> {};

TEST_P(BadConf, IsRefused) { EXPECT_FALSE(parse_alloc_conf(GetParam())); }

INSTANTIATE_TEST_SUITE_P(Texts, BadConf,
                         ::testing::Values("max_split_size_mb:19", "max_split_size_mb:unlimited", "max_split_size_mb",
                                           "garbage_collection_threshold:0", "garbage_collection_threshold:0.0",
                                           "garbage_collection_threshold:1.0", "expandable_segments:true",
                                           "expandable_segments:1", "large_segment_size_mb:8",
                                           "max_non_split_rounding_mb:19",
                                           "large_segment_size_mb:12,max_non_split_rounding_mb:15",
                                           "roundup_power2_divisions:3", "roundup_power2_divisions:0",
                                           "roundup_power2_divisions:[300:4]", "roundup_power2_divisions:[64:3]",
                                           "roundup_power2_divisions:[64:4", "per_process_memory_fraction:1.5",
                                           "backend:foo", "foo:1", "large_segment_size_mb:64,max_split_size_mb:32",
                                           "expandable_segments:True},{", "expandable_segments_reserve:0",
                                           "expandable_segments_reserve:-1", "expandable_segments_reserve:40GiB",
                                           "expandable_segments_reserve:full", "expandable_segments_reserve_by_class:a",
                                           "expandable_segments_reserve_by_class:[a:0]",
                                           "expandable_segments_reserve_by_class:[:1]"));

}  // namespace
}  // namespace memreel
