// SPDX-License-Identifier: Apache-2.0
#include "analyzer/describe/clipped_place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace memreel {
namespace {

TEST(ClippedPlace, KeepsFileAndLine) {
  const std::string_view label = "softmax (basics/lib/transformer.py:175)";
  EXPECT_EQ(clipped_place(label, 39), label);
  EXPECT_EQ(clipped_place(label, 38), "basics/lib/transformer.py:175");
  EXPECT_EQ(clipped_place(label, 28), "softmax (transformer.py:175)");
  EXPECT_EQ(clipped_place(label, 27), "transformer.py:175");
  EXPECT_EQ(clipped_place("f (basics/lib/transformer.py:175)", 28), "f (…/lib/transformer.py:175)");
  EXPECT_EQ(clipped_place(label, 12), "transf…y:175");
  EXPECT_EQ(clipped_place("basics/lib/transformer.py:175, compiled crqi2a6d", 40),
            "…/transformer.py:175, compiled crqi2a6d");
}

TEST(ClippedPlace, WhatNamesNoLineLosesItsMiddle) {
  EXPECT_EQ(clipped_place("backward of log_softmax (LogSoftmaxBackward0)", 21), "backward o…Backward0)");
  EXPECT_EQ(clipped_place("<allocated before recording began>", 11), "<allo…egan>");
}

TEST(ClippedPlace, WhatTellsTwoLabelsApartStays) {
  const auto layer = [](const std::string& number) {
    return "llama.py:1164/llama.py:968 #" + number + "/llama.py:727/llama.py:216";
  };
  EXPECT_THAT(clipped_places({layer("0"), layer("21"), layer("2")}, 36),
              ::testing::ElementsAre("…/llama.py:968 #0/…/llama.py:216", "…/llama.py:968 #21/…/llama.py:216",
                                     "…/llama.py:968 #2/…/llama.py:216"));
  EXPECT_THAT(clipped_places({"encoder/block/attention.py:5", "decoder/block/attention.py:5"}, 27),
              ::testing::ElementsAre("encoder/…/attention.py:5", "decoder/…/attention.py:5"));
  EXPECT_THAT(clipped_places({layer("0"), layer("0")}, 36),
              ::testing::ElementsAre("…/llama.py:727/llama.py:216", "…/llama.py:727/llama.py:216"))
      << "one place twice";
}

}  // namespace
}  // namespace memreel
