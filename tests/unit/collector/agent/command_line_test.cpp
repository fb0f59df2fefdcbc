// SPDX-License-Identifier: Apache-2.0
#include "collector/trace/job.h"

#include <gtest/gtest.h>

namespace memreel::agent {
namespace {

using Arguments = std::vector<std::string>;

TEST(CommandLine, SecretsAreMasked) {
  const auto masked = [](const Arguments& arguments) { return masked_text_of_arguments(arguments); };
  EXPECT_EQ(masked({"./train", "--api-key=abc def", "x"}), "./train --api-key=*** x");
  EXPECT_EQ(masked({"./train", "--token", "abc", "x"}), "./train --token *** x");
  EXPECT_EQ(masked({"./train", "--hf_token", "-abc", "x"}), "./train --hf_token *** x");
  EXPECT_EQ(masked({"./train", "-password=abc"}), "./train -password=***");
  EXPECT_EQ(masked({"env", "PASSWORD=abc", "WANDB_API_KEY=def", "./train"}),
            "env PASSWORD=*** WANDB_API_KEY=*** ./train");
  EXPECT_EQ(masked({"sh", "-c", "DB_PASSWORD='abc' HF_TOKEN=def python train.py --secret ghi"}),
            "sh -c DB_PASSWORD=*** HF_TOKEN=*** python train.py --secret ***");
  EXPECT_EQ(masked({"./x", "postgres://user:abc@host:5432/base"}), "./x postgres://user:***@host:5432/base");
  EXPECT_EQ(masked({"curl", "-H", "Authorization: Bearer abc"}), "curl -H Authorization: Bearer ***");
  EXPECT_EQ(masked({"./x", "hf_abcdefghijklmnopqrst"}), "./x ***");
  EXPECT_EQ(masked({"./x", "--login=hf_abcdefghijklmnopqrst"}), "./x --login=***");
  EXPECT_EQ(masked({"./x", "--clientSecret=abc", "--awsSecretAccessKey=def"}),
            "./x --clientSecret=*** --awsSecretAccessKey=***");
}

TEST(CommandLine, WhatIsNoSecretStays) {
  for (const Arguments& arguments :
       {Arguments{"python", "train.py", "--max-tokens=2048", "--tokenizer", "gpt2", "--key=loss", "--monkey", "x"},
        Arguments{"python", "-c", "import torch; a = torch.ones(3); print(a.sum())"},
        Arguments{"./x", "http://host:8080/path@2", "a=b", "--token", "--verbose"}, Arguments{"./x", ""}, Arguments{}})
    EXPECT_EQ(masked_text_of_arguments(arguments), text_of_arguments(arguments));
}

TEST(CommandLine, IsThisProcesss) {
  const Arguments own = own_arguments();
  ASSERT_FALSE(own.empty());
  EXPECT_NE(own.front().find("agent_test"), std::string::npos);
}

}  // namespace
}  // namespace memreel::agent
