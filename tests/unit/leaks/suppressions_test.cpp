// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/insight/suppressions.h"

#include <gtest/gtest.h>

#include "tests/unit/sample_trace.h"

namespace memreel {
namespace {

TEST(SuppressionPattern, MatchesAnywhereUnlessAnchored) {
  EXPECT_TRUE(matches("cache", "my_cache_of_masks"));
  EXPECT_FALSE(matches("cache", "my_table"));
  EXPECT_TRUE(matches("^my", "my_cache"));
  EXPECT_FALSE(matches("^cache", "my_cache"));
  EXPECT_TRUE(matches("cache$", "my_cache"));
  EXPECT_FALSE(matches("my$", "my_cache"));
  EXPECT_TRUE(matches("^my_cache$", "my_cache"));
  EXPECT_FALSE(matches("^my_cache$", "my_cache2"));
}

TEST(SuppressionPattern, AStarStandsForAnything) {
  EXPECT_TRUE(matches("my*masks", "x my_cache_of_masks y"));
  EXPECT_TRUE(matches("^my*masks$", "my_masks_of_masks"));
  EXPECT_FALSE(matches("^my*masks$", "my_masks_of"));
  EXPECT_FALSE(matches("a*b*c", "c b a"));
  EXPECT_TRUE(matches("^*$", ""));
  EXPECT_TRUE(matches("ab*", "xxab"));
  EXPECT_FALSE(matches("^ab*ab$", "ab"));
}

class SuppressionList : public ::testing::Test {
 protected:
  SuppressionList()
      : stack_(build_.stack(
            {"forward@site-packages/torch/nn/linear.py:10", "Cache.get@train.py:41", "<module>@run.py:7"})) {}

  testing::TraceBuilder build_;
  StackId stack_;
  Suppressions list_;
};

TEST_F(SuppressionList, LooksAtFunctionAndFileOfEveryFrame) {
  for (const std::string line :
       {"leak:Cache.get", "leak:train.py", "leak:run.py$", "leak:linear.py", "leak:<module>"}) {
    Suppressions one;
    ASSERT_TRUE(one.add_lines(line, ""));
    EXPECT_NE(one.match(build_.trace().tables, stack_), nullptr) << line;
  }
  ASSERT_TRUE(list_.add_lines("leak:eval.py", ""));
  EXPECT_EQ(list_.match(build_.trace().tables, stack_), nullptr);
  EXPECT_EQ(list_.match(build_.trace().tables, StackId::none), nullptr);
}

TEST_F(SuppressionList, LooksAtModules) {
  Tables& tables = build_.trace().tables;
  tables.strings.emplace_back("/usr/lib/libvendor.so.3");
  tables.modules.push_back({.path = StringId{static_cast<std::uint32_t>(tables.strings.size() - 1)}, .build_id = {}});
  tables.frames.back().module = ModuleId{1};
  ASSERT_TRUE(list_.add_lines("leak:libvendor", ""));
  EXPECT_NE(list_.match(tables, stack_), nullptr);
}

TEST_F(SuppressionList, CommentsAndBlankLinesAreSkipped) {
  ASSERT_TRUE(list_.add_lines("# ours\n\n  leak:train.py  \r\n\t\n", "known.txt"));
  ASSERT_EQ(list_.all().size(), 1U);
  EXPECT_EQ(list_.all()[0].pattern, "train.py");
  EXPECT_FALSE(list_.all()[0].built_in);
}

TEST_F(SuppressionList, OtherKindsAreRefusedWithTheirLine) {
  for (const std::string text : {"leak:a\nrace:b\n", "leak:a\nb", "leak:a\nleak:  "}) {
    const Result<void> added = Suppressions().add_lines(text, "known.txt");
    ASSERT_FALSE(added) << text;
    EXPECT_NE(Error(added.error()).message().find("known.txt: line 2"), std::string::npos);
  }
}

TEST(BuiltInSuppressions, KnowLibrariesThatKeepWorkspaces) {
  testing::TraceBuilder build;
  const StackId stack = build.stack({"at::cuda::getCurrentCUDABlasHandle()@Blas.cpp:1", "step@train.py:41"});
  const Suppressions list = Suppressions::built_in();
  const Suppression* match = list.match(build.trace().tables, stack);
  ASSERT_NE(match, nullptr);
  EXPECT_TRUE(match->built_in);
}

}  // namespace
}  // namespace memreel
