// SPDX-License-Identifier: Apache-2.0
// Many kinds of programs with many seeds each: leaks are found, and nothing else.
#include <gtest/gtest.h>

#include "analyzer/analysis/insight/leaks.h"
#include "tests/leak_programs.h"

namespace memreel::test {
namespace {

class MadeUpPrograms : public ::testing::TestWithParam<KindOfProgram> {};

constexpr std::uint64_t seeds = 24;

TEST_P(MadeUpPrograms, AreJudgedRight) {
  double recall = 0, precision = 0;
  std::string wrong;
  for (std::uint64_t seed = 1000; seed < 1000 + seeds; ++seed) {
    MadeUpProgram program(seed);
    GetParam().run(program);
    const LeakReport report = test::leaks_of(program.trace());
    const LeakScore s = score(program.trace(), report, program.truth());
    recall += s.byte_recall() / seeds;
    precision += s.byte_precision() / seeds;
    if (!s.holds()) wrong += " " + std::to_string(seed);
    if (!GetParam().leaks) {
      EXPECT_EQ(s.accused, 0U) << "seed " << seed;
    } else {
      EXPECT_EQ(s.rank, 1U) << "seed " << seed;
    }
  }
  // Among sessions that are never closed, the youngest are indistinguishable from open ones.
  if (GetParam().leaks) {
    EXPECT_GE(recall, 0.95) << wrong;
    EXPECT_GE(precision, 0.85) << wrong;
  }
}

// A list that a function or a module keeps is freed when Python ends; that makes it no smaller a leak.
TEST_P(MadeUpPrograms, AreJudgedTheSameWhenTheirEndIsRecorded) {
  for (std::uint64_t seed = 1000; seed < 1000 + seeds / 2; ++seed) {
    MadeUpProgram program(seed);
    GetParam().run(program);
    const std::vector<AllocationId> accused = accused_of(test::leaks_of(program.trace()));
    for (const LastFrees order : {LastFrees::oldest_first, LastFrees::newest_first, LastFrees::by_size}) {
      const LeakReport report = test::leaks_of(freed_to_the_end(program.trace(), order));
      EXPECT_EQ(accused_of(report), accused) << "seed " << seed;
      for (const LeakFinding& finding : report.findings) EXPECT_TRUE(accuses(finding.verdict)) << finding.evidence;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, MadeUpPrograms, ::testing::ValuesIn(kinds_of_programs()), [](const auto& kind) {
  std::string name;
  for (const char c : kind.param.name) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) name += c;
    if (c == ' ') name += '_';
  }
  return name;
});

}  // namespace
}  // namespace memreel::test
