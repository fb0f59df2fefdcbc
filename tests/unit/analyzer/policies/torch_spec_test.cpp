// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/policies/torch_spec.h"

#include <gtest/gtest.h>

#include "analyzer/replay/registry.h"

namespace memreel {
namespace {

TEST(TorchSpec, ThePolicyTorchIsTorchNative) {
  const auto specs = parse_policies("torch{expandable_segments:True,roundup_power2_divisions:[256:1,>:8]},torch");
  ASSERT_TRUE(specs);
  const auto policy = bind_policy(specs->at(0));
  ASSERT_TRUE(policy) << policy.error().message();
  EXPECT_EQ(policy->spec.name, "torch.native");
  EXPECT_EQ(policy->spec.parameters.at("expandable_segments"), "True");
  EXPECT_EQ(policy->spec.parameters.at("roundup_power2_divisions"), "[256:1,>:8]");
  EXPECT_EQ(bind_policy(specs->at(1))->spec, spec_of(TorchSettings{}));
  EXPECT_EQ(bind_policy(policy->spec)->spec, policy->spec);
}

TEST(TorchSpec, TorchExpandableIsTorchNativeWithExpandableSegments) {
  const auto policy = bind_policy({.name = "torch.expandable", .parameters = {{"max_split_size_mb", "64"}}});
  ASSERT_TRUE(policy);
  EXPECT_EQ(policy->spec.name, "torch.expandable");
  EXPECT_EQ(policy->spec.parameters, (TorchSettings{.max_split_size = 64_MiB, .expandable = true}.parameters()));
}

TEST(TorchSpec, AnotherBackendIsAnotherPolicy) {
  const auto policy = bind_policy({.name = "torch", .parameters = {{"backend", "cudaMallocAsync"}}});
  ASSERT_FALSE(policy);
  EXPECT_NE(policy.error().message().find("cuda.async"), std::string::npos);
}

TEST(TorchSpec, ThePolicyTorchRefusesWhatPyTorchRefuses) {
  const auto refusal = [](const char* key, const char* value) {
    const auto policy = bind_policy({.name = "torch", .parameters = {{key, value}}});
    return policy ? std::string() : policy.error().message();
  };
  EXPECT_EQ(refusal("max_split_size_mb", "19"),
            "policy torch: max_split_size_mb must be a number of MiB from 20, not '19'");
  EXPECT_EQ(refusal("max_split_size_mb", "unlimited"),
            "policy torch: max_split_size_mb must be a number of MiB, not 'unlimited'");
  EXPECT_EQ(refusal("max_split", "64"), "policy torch: PyTorch has no setting max_split");
  EXPECT_EQ(refusal("max_split_size", "64"),
            "policy torch: PyTorch has no setting max_split_size: max_split_size_mb is meant");
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
