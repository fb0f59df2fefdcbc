// SPDX-License-Identifier: Apache-2.0
// Every text of the tables, and the answer to it.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <string_view>

#include "analyzer/analysis/explain/answer.h"
#include "tests/unit/explain/pasted_logs.h"

namespace memreel::explain {
namespace {

TEST(Table, EachExampleIsFoundByItsOwnExpression) {
  for (const Grammar* grammar : all_texts()) {
    if (grammar->fact) continue;
    const Failure failure = only_failure("some line\n" + std::string(grammar->example) + "\n");
    ASSERT_NE(failure.grammar, nullptr) << grammar->name;
    EXPECT_EQ(failure.grammar->name, grammar->name);
    EXPECT_EQ(failure.line, 2U);
  }
}

TEST(Table, NamesAreUniqueAndRowsAreComplete) {
  std::set<std::string_view> names;
  for (const Grammar* grammar : all_texts()) {
    EXPECT_TRUE(names.insert(grammar->name).second) << grammar->name;
    EXPECT_FALSE(grammar->framework.empty() || grammar->key.empty() || grammar->printed_by.empty()) << grammar->name;
    EXPECT_TRUE(grammar->fact || !(grammar->example.empty() || grammar->meaning.empty())) << grammar->name;
    EXPECT_TRUE(std::ranges::none_of(grammar->key, [](char c) { return c == ' ' || (c >= 'A' && c <= 'Z'); }))
        << grammar->name;
  }
}

TEST(Text, HasAtMostFiveLinesThatEndTheSameInAsciiAndUnicode) {
  for (const Grammar* grammar : all_texts()) {
    if (grammar->fact) continue;
    const Failure failure = only_failure(grammar->example);
    for (const bool unicode : {false, true}) {
      const std::string text = text_of(failure, "train.log", unicode);
      EXPECT_LE(std::ranges::count(text, '\n'), 5) << text;
      EXPECT_TRUE(unicode || std::ranges::all_of(text, [](char c) { return c == '\n' || (c >= ' ' && c <= '~'); }))
          << text;
    }
  }
}

}  // namespace
}  // namespace memreel::explain
