// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/tune/search_space.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "analyzer/replay/policies/torch_spec.h"
#include "tests/histories.h"

namespace memreel {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(SettingFacts, AdviceComesWithItsSideEffects) {
  const PolicySpec before = spec_of(TorchSettings{});
  EXPECT_THAT(side_effects_of(before, spec_of(TorchSettings{.expandable = true})), HasSubstr("cudaIpcGetMemHandle"));
  EXPECT_THAT(side_effects_of(spec_of(TorchSettings{.expandable = true}), before), IsEmpty());
  EXPECT_THAT(side_effects_of(before, before), IsEmpty());
}

TEST(SettingFacts, AMisspeltKeyIsPointedOut) {
  EXPECT_EQ(misread_settings({{"PYTORCH_CUDA_ALLOC_CONF", "expandable_segment:True"}}),
            "PYTORCH_CUDA_ALLOC_CONF: PyTorch has no setting expandable_segment: expandable_segments is meant");
  EXPECT_THAT(misread_settings({{"PYTORCH_CUDA_ALLOC_CONF", "roundup_power2_divisions:[256:1,>:8]"}}), IsEmpty());
  EXPECT_THAT(misread_settings({{"PYTORCH_CUDA_ALLOC_CONF", "something:1"}}), HasSubstr("has no setting something"));
  EXPECT_THAT(misread_settings({}), IsEmpty());
}

TEST(SettingFacts, AVariableThatIsNotReadIsPointedOut) {
  EXPECT_EQ(misread_settings({{"PYTORCH_ALLOC_CONF", "expandable_segments:True"}, {"pytorch_release", "2.4"}}),
            "PYTORCH_ALLOC_CONF is not read before PyTorch 2.10, only PYTORCH_CUDA_ALLOC_CONF is");
  EXPECT_EQ(misread_settings({{"PYTORCH_ALLOC_CONF", "expandable_segments:True"}, {"PYTORCH_CUDA_ALLOC_CONF", ""}}),
            "PYTORCH_ALLOC_CONF is not read where PYTORCH_CUDA_ALLOC_CONF is set");
}

TEST(SettingFacts, WhatIsNotReadIsListed) {
  using ::testing::ElementsAre;
  EXPECT_THAT(ignored_settings({{"PYTORCH_ALLOC_CONF", "expandable_segments:True, max_split_size_mb:64"},
                                {"PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:32"}}),
              ElementsAre("expandable_segments:True", "max_split_size_mb:64"));
  EXPECT_THAT(ignored_settings({{"PYTORCH_ALLOC_CONF", "expandable_segments:True"}, {"pytorch_release", "2.4"}}),
              ElementsAre("expandable_segments:True"));
  EXPECT_THAT(ignored_settings({{"PYTORCH_ALLOC_CONF", "expandable_segments:True"}, {"pytorch_release", "2.12"}}),
              IsEmpty());
  EXPECT_THAT(ignored_settings({{"PYTORCH_CUDA_ALLOC_CONF", "expandable_segment:True,max_split_size_mb:32"}}),
              ElementsAre("expandable_segment:True"));
  EXPECT_THAT(ignored_settings({}), IsEmpty());
}

TEST(SettingFacts, AValueThatIsNotInForceIsPointedOut) {
  EXPECT_THAT(misread_settings({{"PYTORCH_ALLOC_CONF", "expandable_segments:True"}, {"expandable_segments", "False"}}),
              HasSubstr("False is in force"));
  EXPECT_THAT(misread_settings({{"PYTORCH_ALLOC_CONF", "expandable_segments:True"}, {"expandable_segments", "True"}}),
              IsEmpty());
}

TEST(SettingFacts, TheDocumentsSayTheSame) {
  std::ifstream file(test::source_directory() / "docs/out-of-memory.md");
  std::stringstream text;
  text << file.rdbuf();
  for (const SettingFacts& setting : setting_facts()) {
    if (setting.side_effects.empty()) continue;
    EXPECT_THAT(text.str(), HasSubstr("| `" + std::string(setting.key) + "` | "));
    EXPECT_THAT(text.str(), HasSubstr(std::string(setting.side_effects)));
  }
}

}  // namespace
}  // namespace memreel
